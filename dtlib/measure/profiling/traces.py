"""Read Chrome traces of torch.profiler: what a rank did in each step, and when.

The same reader takes traces of a CPU and of a GPU. If a trace has GPU kernels, these compute and
communicate; what the CPU does meanwhile only launches them.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, in_words
from dtlib.measure.profiling.intervals import Intervals, overlap, union
from dtlib.measure.profiling.recording import COMMUNICATION, INPUT

STEP = re.compile(r"ProfilerStep#(\d+)")
# torch's own mark around a DataLoader's next batch
WAITS = re.compile(rf"{re.escape(INPUT)}$|enumerate\(DataLoader\)")
ON_THE_WIRE = re.compile(rf"{re.escape(COMMUNICATION)}$|gloo:|mpi:|nccl:")
NCCL = re.compile("nccl", re.IGNORECASE)
# Frames around operations, and calls that start a collective: neither is work
FRAMES = re.compile(r"autograd::engine::evaluate_function|c10d::|detach$")
CANNOT_READ = (
    OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError
)  # fmt: skip
FILE = re.compile(r"rank(\d+)\.json(\.gz)?")


@dataclass(frozen=True)
class Step:
    """One step of one rank, in seconds; each list is sorted and inside the step.

    The lists are disjoint, except `collectives`, of which several may be under way at once.
    """

    rank: int
    number: int
    begin: float
    end: float
    compute: Intervals
    communication: Intervals
    input: Intervals
    collectives: Intervals

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return self.end - self.begin


def read(folder: str | Path) -> list[Step]:
    """Read every `rank*.json` of a folder (gzip too).

    Returns
    -------
    list of Step
        By rank and number; `collectives` has each one separately, in order, so that those of
        different ranks can be compared.

    Raises
    ------
    BadInput
        When there is no trace, or a file is not a trace or has no step in it.
    """
    files = sorted(path for path in Path(folder).glob("rank*") if FILE.fullmatch(path.name))
    if not files:
        raise BadInput(
            f"{folder} has no trace (rank0.json, rank1.json, …): give the folder profile/ of a"
            " run with --profile."
        )
    ranks = [int(path.name.split(".")[0][len("rank") :]) for path in files]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        raise BadInput(f"{folder} has two traces of rank {twice[0]}; leave only the one you mean.")
    steps = [step for path in files for step in _read_file(path)]
    return sorted(steps, key=lambda step: (step.rank, step.number))


def _read_file(path: Path) -> Iterator[Step]:
    found = FILE.fullmatch(path.name)
    assert found
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        complete = [_checked(event) for event in json.loads(text)["traceEvents"] if _whole(event)]
    except CANNOT_READ as error:
        raise BadInput(
            f"{path} cannot be read as a Chrome trace ({in_words(error)}); record it again."
        ) from None
    windows = {
        int(match[1]): _span(event)
        for event in complete
        if event.get("cat") == "user_annotation"
        and event["dur"] > 0
        and (match := STEP.match(event["name"]))
    }
    if not windows:
        raise BadInput(
            f"{path} has no step in it: after each step, call what `profiling.record` gives you."
        )
    kinds = _kinds(complete)
    collectives = _collectives(complete, kinds["communication"])
    for number, (begin, end) in windows.items():
        inside = {name: overlap(union(spans), [(begin, end)]) for name, spans in kinds.items()}
        single = [(b, min(e, end)) for b, e in collectives if begin <= b < end]
        yield Step(
            int(found[1]), number, begin, end, inside["compute"], inside["communication"],
            inside["input"], single,
        )  # fmt: skip


def _whole(event: dict[str, Any]) -> bool:
    """Whether an event has a start and an end; other marks have no duration."""
    return event.get("ph") == "X" and "dur" in event


def _checked(event: dict[str, Any]) -> dict[str, Any]:
    """The same event with its fields checked and converted, or an error that names the field."""
    if not isinstance(event["name"], str):
        raise TypeError(f"an event's name is {event['name']!r}")
    return {**event, "ts": float(event["ts"]), "dur": float(event["dur"])}


def _kinds(events: list[dict[str, Any]]) -> dict[str, Intervals]:
    """Sort the events of a rank into compute, communication and input."""
    on_gpu = any(event.get("cat") == "kernel" for event in events)
    kinds: dict[str, Intervals] = {"compute": [], "communication": [], "input": []}
    for event in events:
        name, category = event["name"], event.get("cat", "")
        if category == "user_annotation" and WAITS.match(name):
            kinds["input"].append(_span(event))
        elif category == "kernel" and NCCL.match(name):
            kinds["communication"].append(_span(event))
        elif category in ("user_annotation", "cpu_op") and ON_THE_WIRE.match(name):
            if not on_gpu:  # on a GPU the kernel counts, and this is only its launch
                kinds["communication"].append(_span(event))
        elif category == ("kernel" if on_gpu else "cpu_op") and not FRAMES.match(name):
            kinds["compute"].append(_span(event))
    return kinds


def _collectives(events: list[dict[str, Any]], communication: Intervals) -> Intervals:
    """Each collective once, by its begin.

    A range of `communication()` counts as one only if torch recorded no collective that began in
    it: what it holds is there separately.
    """
    ranges = {
        _span(event)
        for event in events
        if event["name"] == COMMUNICATION and event.get("cat") == "user_annotation"
    }
    recorded = sorted(span for span in communication if span not in ranges)
    begins = [begin for begin, _ in recorded]
    bare = [
        (begin, end)
        for begin, end in ranges.intersection(communication)
        if bisect_left(begins, begin) == bisect_right(begins, end)
    ]
    return sorted([*recorded, *bare])


def _span(event: dict[str, Any]) -> tuple[float, float]:
    """Start and end in seconds; a trace has microseconds."""
    begin = float(event["ts"]) * 1e-6
    return begin, begin + float(event["dur"]) * 1e-6
