"""Read the trace of one's own script: the ranges of a step, and the operators in each."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from dtlib.measure.profiling.intervals import Intervals, union

RANGES = ("forward", "backward", "update")


class Part(NamedTuple):
    """A range of the step, in seconds since the step began.

    `operators` holds the stretches in which at least one operator runs, `self_time` the seconds of
    each operator without those of the operators that it calls.
    """

    begin: float
    end: float
    operators: Intervals
    self_time: dict[str, float]

    @property
    def gaps(self) -> float:
        """Seconds in which no operator runs."""
        return self.end - self.begin - sum(end - begin for begin, end in self.operators)

    def longest(self) -> tuple[str, float]:
        """The operator with the most self time, and its seconds."""
        return max(self.self_time.items(), key=lambda item: item[1])


def shortest_step(path: str | Path) -> dict[str, Part]:
    """Read the shortest step of a trace whose script has the ranges forward, backward and update.

    Of several steps it is the one that other programs disturbed least.

    Parameters
    ----------
    path
        A Chrome trace of `torch.profiler`.

    Returns
    -------
    dict
        From the name of each range to its `Part`.
    """
    events = [e for e in json.loads(Path(path).read_text())["traceEvents"] if e.get("ph") == "X"]
    marks = [e for e in events if e.get("cat") == "user_annotation"]
    step = min((e for e in marks if e["name"].startswith("ProfilerStep#")), key=lambda e: e["dur"])
    zero, over = step["ts"], step["ts"] + step["dur"]
    operators = [
        (e["name"], *_span(e, zero))
        for e in events
        if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")
    ]
    return {
        mark["name"]: _part(*_span(mark, zero), operators)
        for mark in sorted(marks, key=lambda e: e["ts"])
        if mark["name"] in RANGES and zero <= mark["ts"] < over
    }


def _span(event: dict, zero: float) -> tuple[float, float]:
    begin = (float(event["ts"]) - float(zero)) * 1e-6
    return begin, begin + float(event["dur"]) * 1e-6


def _part(begin: float, end: float, operators: list[tuple[str, float, float]]) -> Part:
    inside = sorted((b, -e, name) for name, b, e in operators if begin <= b and e <= end)
    seconds: dict[str, float] = defaultdict(float)
    open_ones: list[tuple[float, str]] = []  # end and name, the innermost last
    for b, minus_e, name in inside:
        while open_ones and open_ones[-1][0] <= b:
            open_ones.pop()
        if open_ones:
            seconds[open_ones[-1][1]] -= -minus_e - b
        seconds[name] += -minus_e - b
        open_ones.append((-minus_e, name))
    return Part(begin, end, union((b, -e) for b, e, _ in inside), dict(seconds))
