"""Compare measurements with the targets that the study behind this course set for GPUs.

A target is judged on each repeat: the median decides whether it is reached, and the sentence says
how many repeats reach it. A value that was not measured is reported as such, and never guessed.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dtlib.errors import counted
from dtlib.study import scaling, sensitivity

RANKS = 8
"""The number of ranks that the scaling targets are for."""

Rows = Sequence[Mapping[str, Any]]


class Target(NamedTuple):
    """A bound on a share; a value meets it if `holds(value, bound)` is true."""

    what: str
    bound: float
    holds: Callable[[float, float], bool] = operator.lt

    def met(self, value: float) -> bool:
        """Tell whether a value meets the bound."""
        return self.holds(value, self.bound)


STRONG = Target("strong scaling: an efficiency of at least 70 %", 0.70, operator.ge)
WEAK = Target("weak scaling: a step at most 10 % longer than on one rank", 0.10, operator.le)
GAIN = Target("a gain of at least 20 %", 0.20, operator.ge)
COMMUNICATION = Target("less than 20 % exposed communication", 0.20)
INPUT = Target("less than 5 % waiting for input", 0.05)


def of_scaling(rows: Rows) -> list[str]:
    """Return a sentence for each target of a study of strong or weak scaling, from its runs."""
    found = scaling.paired(rows)
    strong, most = rows[0]["study"] == "strong", max(found)
    target = STRONG if strong else WEAK
    values = {n: e if strong else [1 / one - 1 for one in e] for n, e in found.items()}
    if RANKS in found:
        said = judge(target, values[RANKS], f"on {RANKS} ranks")
    elif most == 1:
        said = f"not measured here (no run on {RANKS} ranks)"
    else:
        near = _numbers(values[most])
        said = f"not measured here (no run on {RANKS} ranks; on {most} it is {near})"
    last = [row for row in rows if row["world_size"] == most]
    return [f"{target.what}: {said}", *of_shares(last)]


def of_sensitivity(gains: Sequence[float], best: Rows) -> list[str]:
    """Return a sentence for each target of a sensitivity study, from the runs of the best setting.

    `gains` are its gains over the first setting, one per repeat; empty if the first one is best.
    """
    said = judge(GAIN, gains, "") if gains else "not reached: no setting is faster than the first"
    if gains and statistics.median(gains) > 0 and sensitivity.verdict(gains) == sensitivity.NOISE:
        said = f"not reached: {_numbers(gains)} is within its own spread, which is noise"
    return [f"{GAIN.what}: {said}", *of_shares(best)]


def of_shares(rows: Rows) -> list[str]:
    """Return a sentence for the targets of communication and input, judged on these runs."""
    if not rows:
        return []
    ranks = max(row["world_size"] for row in rows)
    where, found = f"on {counted(ranks, 'rank')}", []
    for target, column in ((COMMUNICATION, "comm_share"), (INPUT, "data_share")):
        values = [row[column] for row in rows if row[column] is not None]
        if not values:
            said = "not measured here (no run has a --profile)"
        elif target is COMMUNICATION and ranks == 1:
            said = "not measured here (one rank has nobody to talk to)"
        else:
            said = judge(target, values, where)
        found.append(f"{target.what}: {said}")
    return found


def judge(target: Target, values: Sequence[float], where: str) -> str:
    """Say whether the median meets a target, how many of the runs do, and the numbers.

    `values` has one value per run; `where` says where they are from, such as "on 8 ranks".
    """
    met = sum(map(target.met, values))
    verdict = "reached" if target.met(statistics.median(values)) else "not reached"
    split = f" (by {met} of {len(values)} runs)" if 0 < met < len(values) else ""
    return f"{verdict}{split}: {_numbers(values)}{' ' if where else ''}{where}"


def _numbers(values: Sequence[float]) -> str:
    middle, ends = statistics.median(values), (min(values), max(values))
    if len(values) == 1:
        return f"{middle:.1%} (one run, no spread)"
    return f"{middle:.1%} ({ends[0]:.1%} to {ends[1]:.1%})"
