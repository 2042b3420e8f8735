"""The performance of kernels, from Nsight Compute's CSV (`ncu --csv`, page raw or details).

The raw page has one row per launch, with a metric in each column and the units in a row below the
header; the details page has one row per metric. Lines that ncu or the program printed around the
table are skipped.
https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html#output-pages
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dtlib.config.sheets import decode
from dtlib.errors import BadInput, in_words
from dtlib.measure.profiling.metrics import DURATION, dram_bytes, flop

# What the details page calls the metrics of the sections
LABELS = {"Duration": DURATION, "Memory Throughput": "dram__bytes.sum.per_second"}
MAKE = "make it with `ncu --import REPORT --csv --page raw --print-units base`"
NAME_OF_GPU = "device__attribute_display_name"
PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "n": 1e-9, "u": 1e-6, "m": 1e-3}
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


@dataclass(frozen=True)
class Launch:
    """One launch: its kernel, its GPU ("" if unknown), its metrics in base units."""

    kernel: str
    gpu: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Reached:
    """The performance of all launches of a kernel together."""

    kernel: str
    gpu: str  # "" if the file does not give it
    launches: int
    seconds: float  # of all launches
    flop: Mapping[str, float]  # operations by precision ("fp32", "bf16", …), where counted
    dram_bytes: float | None  # read from and written to the GPU's memory; None: not measured

    def flop_per_second(self) -> dict[str, float]:
        """FLOP/s by precision, without the precisions in which nothing was computed."""
        return {kind: count / self.seconds for kind, count in self.flop.items() if count}

    def bytes_per_second(self) -> float | None:
        """Bytes per second of the GPU's memory, or None."""
        return None if self.dram_bytes is None else self.dram_bytes / self.seconds


def read(path: str | Path) -> list[Reached]:
    """Read a file and add up the launches of each kernel; the slowest kernel comes first.

    Raises `BadInput` if it has no ncu table, no launch, or a launch without its duration.
    """
    together: dict[tuple[str, str], list[Launch]] = defaultdict(list)
    for one in read_launches(path):
        if not 0 < one.metrics.get(DURATION, 0.0) < math.inf:  # nan is neither
            raise BadInput(
                f"{path} has no duration for kernel {one.kernel}; measure {DURATION} too, as"
                " `dtlib profile ncu` does."
            )
        together[one.kernel, one.gpu].append(one)
    found = [_reached(kernel, gpu, some) for (kernel, gpu), some in together.items()]
    return sorted(found, key=lambda one: (-one.seconds, one.kernel))


def _reached(kernel: str, gpu: str, some: list[Launch]) -> Reached:
    total: dict[str, float] = defaultdict(float)
    for one in some:
        for precision, count in flop(one.metrics).items():
            total[precision] += count
    sizes = [dram_bytes(one.metrics) for one in some]
    known = [size for size in sizes if size is not None]
    return Reached(
        kernel, gpu, len(some), sum(one.metrics[DURATION] for one in some), dict(total),
        sum(known) if len(known) == len(sizes) else None,
    )  # fmt: skip


def read_launches(path: str | Path) -> list[Launch]:
    """Read each launch of a file; see `read`."""
    try:
        text, _ = decode(Path(path).read_bytes())  # PowerShell writes UTF-16
        lines = csv.reader(text.splitlines())
        head = next((row for row in lines if row[:1] == ["ID"] and "Kernel Name" in row), None)
        if head is None or ("Metric Name" in head and "Metric Value" not in head):
            raise BadInput(f"{path} has no ncu table; {MAKE}.")
        rows = [dict(zip(head, row, strict=True)) for row in lines if len(row) == len(head)]
    except (OSError, ValueError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read as ncu's CSV ({in_words(error)}); {MAKE}.") from None
    found = list(_by_row(rows) if "Metric Name" in head else _by_column(rows))
    if not found:
        raise BadInput(
            f"{path} has no launch in it: no kernel matched the filter, or the run ended before the"
            " first step to capture."
        )
    return found


def _by_column(rows: Iterable[dict[str, str]]) -> Iterator[Launch]:
    """The raw page; its second line has the units, but neither an ID nor a name."""
    units: dict[str, str] = {}
    for row in rows:
        if not row["ID"]:
            units = row
            continue
        values = {name: number(text, units.get(name, "")) for name, text in row.items()}
        metrics = {name: value for name, value in values.items() if value is not None}
        yield Launch(row["Kernel Name"], row.get(NAME_OF_GPU, ""), metrics)


def _by_row(rows: Iterable[dict[str, str]]) -> Iterator[Launch]:
    """The details page: rows of one launch have the same number, in the same process."""
    launches: dict[tuple[str, str], tuple[str, dict[str, float]]] = {}
    for row in rows:
        if not row["ID"]:
            continue
        key = row.get("Process ID", ""), row["ID"]
        _, metrics = launches.setdefault(key, (row["Kernel Name"], {}))
        name, unit = row["Metric Name"], row.get("Metric Unit", "")
        name = LABELS.get(name, name)
        value = number(row["Metric Value"], unit)
        # "Memory Throughput" is also a percentage, in another section
        if value is not None and (name not in LABELS.values() or unit != "%"):
            metrics[name] = value
    for kernel, metrics in launches.values():
        yield Launch(kernel, "", metrics)


def number(text: str, unit: str) -> float | None:
    """Return a value in base units (seconds, bytes, …), or None if it is not a number ("n/a")."""
    cleaned = text.strip().replace(" ", "")
    if THOUSANDS.fullmatch(cleaned):
        cleaned = cleaned.replace(",", "")
    elif "." not in cleaned:
        cleaned = cleaned.replace(",", ".")  # for instance the decimal comma of a German system
    try:
        return float(cleaned) * _scale(unit)
    except ValueError:
        return None


def _scale(unit: str) -> float:
    """Return a unit in base units: 1e-6 for "us", 1e9 for "Gbyte/s" and "cycle/nsecond"."""
    above, _, below = unit.partition("/")
    return _prefix(above) / _prefix(below)


def _prefix(unit: str) -> float:
    found = re.match(r"(n|u|m)?s(?:ec(?:ond)?)?$|(K|M|G|T)(?=[a-z])", unit)
    return PREFIXES[(found[1] or found[2] or "") if found else ""]
