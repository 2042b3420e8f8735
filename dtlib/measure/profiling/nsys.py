"""What a GPU did, from the SQLite that Nsight Systems exports (`nsys export --type sqlite`)."""

from __future__ import annotations

import bisect
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dtlib.errors import BadInput
from dtlib.measure.profiling import nsys_rows
from dtlib.measure.profiling.intervals import Intervals, length, overlap, union, without
from dtlib.measure.profiling.nsys_rows import Activity, Named, kind_of

__all__ = ["Export", "GpuShares", "KernelTime", "RangeTime", "analyse", "kind_of", "read"]

STEP = "step"  # the range around a step; it shows what was captured


@dataclass(frozen=True)
class GpuShares:
    """What a GPU did for a process in the captured time: shares of `seconds`, 0 to 1.

    `kernel`, `nccl` and `copy` may overlap. `kernel`, `exposed_nccl` (while no other kernel runs),
    `exposed_copy` (while no kernel runs at all) and `idle` add up to 1.
    """

    process: int
    device: int
    name: str
    seconds: float
    kernel: float
    nccl: float
    exposed_nccl: float
    copy: float
    exposed_copy: float
    idle: float


@dataclass(frozen=True)
class RangeTime:
    """All NVTX ranges of a name: their CPU time, and the GPU time of the kernels they launched.

    `gpu_seconds` is None if the export has no launches.
    """

    name: str
    count: int
    seconds: float
    gpu_seconds: float | None


@dataclass(frozen=True)
class KernelTime:
    """All launches of a kernel, with the seconds of all GPUs together."""

    name: str
    count: int
    seconds: float


@dataclass(frozen=True)
class Export:
    """The content of an export: its GPUs, its NVTX ranges and its kernels, the longest first.

    `unknown` has the names of tables with times that are not read.
    """

    gpus: list[GpuShares]
    ranges: list[RangeTime]
    kernels: list[KernelTime]
    unknown: list[str] = field(default_factory=list)


def read(path: str | Path) -> Export:
    """Read an export: the `.sqlite` file of one report, of one rank or of several.

    Raises `BadInput` if it is not an export, or if no GPU did anything in it.
    """
    if not Path(path).is_file():
        raise BadInput(f"there is no file {path}; give one from `nsys export --type sqlite`.")
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as db:
            return analyse(db)
    except (sqlite3.Error, TypeError) as error:  # TypeError: null or text where a time belongs
        raise BadInput(
            f"{path} cannot be read as an export of Nsight Systems ({error}); make it with"
            " `nsys export --type sqlite`."
        ) from None
    except BadInput as error:
        raise BadInput(f"{path} {error}") from None


def analyse(database: sqlite3.Connection) -> Export:
    """Work out shares, ranges and kernels of an open export; see `read`."""
    if not nsys_rows.has_texts(database):
        raise BadInput(
            "is not an export of Nsight Systems (it has no table StringIds); make it with `nsys"
            " export --type sqlite`."
        )
    activities, unknown = nsys_rows.activities_of(database), nsys_rows.unknown_tables(database)
    if not activities:
        if unknown:
            raise BadInput(f"has no kernel and no copy in a known table; {not_read(unknown)}")
        raise BadInput(
            "has no kernel and no copy in it: the run had no GPU, or ended before the first"
            " step to capture."
        )
    ranges = nsys_rows.ranges_of(database)
    windows = _windows(activities, ranges)
    names = nsys_rows.gpu_names(database)
    by_gpu = defaultdict(list)
    for one in activities:
        by_gpu[one.process, one.device].append(one)
    gpus = [
        _shares(some, process, device, names.get(device, ""), windows[process])
        for (process, device), some in sorted(by_gpu.items())
    ]
    return Export(
        gpus, _range_times(database, ranges, activities), _kernel_times(activities), unknown
    )


def not_read(unknown: list[str]) -> str:
    """Say which tables of an export were not read."""
    return (
        f"not read, since dtlib does not know them: {', '.join(unknown)}. Another version of Nsight"
        " Systems may have written them."
    )


def _windows(activities: list[Activity], ranges: Named) -> dict[int, tuple[int, int]]:
    """The captured time of each process: its steps or, without any, all that any GPU did."""
    whole = min(one.start for one in activities), max(one.end for one in activities)
    windows = {}
    for process in {one.process for one in activities}:
        steps = union(ranges.get(process, {}).get(STEP, ()))
        windows[process] = (int(steps[0][0]), int(steps[-1][1])) if steps else whole
    return windows


def _shares(
    some: list[Activity], process: int, device: int, name: str, window: tuple[int, int]
) -> GpuShares:
    kinds: dict[str, Intervals] = {}
    for kind in ("compute", "nccl", "copy"):
        spans = union((one.start, one.end) for one in some if kind_of(one.name) == kind)
        kinds[kind] = overlap(spans, [window])
    compute, nccl, copy = kinds.values()
    kernels = union([*compute, *nccl])
    whole = max(1, window[1] - window[0])
    parts = {
        "kernel": compute, "nccl": nccl, "exposed_nccl": without(nccl, compute),
        "copy": copy, "exposed_copy": without(copy, kernels),
    }  # fmt: skip
    shares = {part: length(spans) / whole for part, spans in parts.items()}
    idle = 1 - length(union([*kernels, *copy])) / whole
    return GpuShares(process, device, name, whole * 1e-9, idle=idle, **shares)


def _range_times(
    database: sqlite3.Connection, ranges: Named, activities: list[Activity]
) -> list[RangeTime]:
    launched = nsys_rows.launches_of(database, activities)
    count: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    on_gpu: dict[str, float] = defaultdict(float)
    for process, by_name in ranges.items():
        for name, spans in by_name.items():
            count[name] += len(spans)
            seconds[name] += length(union(spans))
            on_gpu[name] += _kernel_time(union(spans), launched.get(process, []))
    times = [
        RangeTime(n, count[n], seconds[n] * 1e-9, on_gpu[n] * 1e-9 if launched else None)
        for n in count
    ]
    return sorted(times, key=lambda one: (-one.seconds, one.name))


def _kernel_time(spans: Intervals, launched: list[tuple[int, Activity]]) -> float:
    by_device: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for begin, end in spans:
        first = bisect.bisect_left(launched, begin, key=lambda pair: pair[0])
        for at, one in launched[first:]:
            if at >= end:
                break
            by_device[one.device].append((one.start, one.end))
    return sum(length(union(some)) for some in by_device.values())


def _kernel_times(activities: list[Activity]) -> list[KernelTime]:
    spans: dict[str, list[int]] = defaultdict(list)
    for one in activities:
        if one.name:
            spans[one.name].append(one.end - one.start)
    times = [KernelTime(name, len(some), sum(some) * 1e-9) for name, some in spans.items()]
    return sorted(times, key=lambda one: (-one.seconds, one.name))
