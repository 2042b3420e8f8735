"""Exercise 20.5: the shares of a GPU's time, from an export of Nsight Systems.

The exports are made by a script, with shares that are known; none was recorded on a GPU.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number
from dtlib.measure.profiling.intervals import length, union

from ..made_export import Row, made_export, spans_of

GEMM, SOFTMAX = "sm90_xmma_gemm_bf16", "softmax_warp_forward"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
# One thing more each time: a kernel alone, a gap, two streams at once, nccl beside compute, copies.
CASES: tuple[tuple[str, list[Row]], ...] = (
    ("one kernel, 0–100 ns", [(7, GEMM, 0, 100)]),
    ("two kernels with a gap, 50–100 and 150–250 ns", [(7, GEMM, 50, 100), (7, SOFTMAX, 150, 250)]),
    ("two streams, 0–80 and 40–100 ns", [(7, GEMM, 0, 80), (8, SOFTMAX, 40, 100)]),
    (
        "a kernel 0–60, nccl 40–90, a kernel 95–100 ns",
        [(7, GEMM, 0, 60), (9, NCCL, 40, 90), (7, GEMM, 95, 100)],
    ),
    (
        "a copy 0–20, a kernel 10–60, nccl 50–100, a copy 120–130, a kernel 160–200 ns",
        [(10, "", 0, 20), (7, GEMM, 10, 60), (9, NCCL, 50, 100), (10, "", 120, 130),
         (7, SOFTMAX, 160, 200)],
    ),
)  # fmt: skip
KINDS = ("compute", "nccl", "copy", "idle")


def reference(database: sqlite3.Connection) -> dict[str, float]:
    """Unions of each kind over the time from the first begin to the last end."""
    kinds = spans_of(database)
    everything = [span for spans in kinds.values() for span in spans]
    whole = max(end for _, end in everything) - min(begin for begin, _ in everything)
    shares = {kind: length(union(spans)) / whole for kind, spans in kinds.items()}
    return {**shares, "idle": 1 - length(union(everything)) / whole}


def check(student: Callable[..., Any]) -> Passed:
    """Compare the four shares of one made export after another."""
    for case, rows in CASES:
        got, want = _ask(student, rows, case), reference(made_export(rows))
        for kind in KINDS:
            if abs(got[kind] - want[kind]) > 1e-6:
                facts = {"got": f"{got[kind]:.3g}", "want": f"{want[kind]:.3g}", "kind": kind}
                raise Wrong(_key(rows, got, want, kind), case, **facts)
    return Passed(tuple((kind, number(got[kind]), number(want[kind]), "") for kind in KINDS))


def _ask(student: Callable[..., Any], rows: list[Row], case: str) -> dict[str, float]:
    got = ask(student, made_export(rows), case=case)
    if got is None:
        raise Wrong("none", case)
    if not isinstance(got, dict) or any(kind not in got for kind in KINDS):
        raise Wrong("not_shares", case, got=repr(got)[:60])
    try:
        return {kind: to_number(got[kind], case) for kind in KINDS}
    except Wrong:
        raise Wrong("not_shares", case, got=repr(got)[:60]) from None


def _key(rows: list[Row], got: dict[str, float], want: dict[str, float], kind: str) -> str:
    begin, end = min(row[2] for row in rows), max(row[3] for row in rows)
    whole = end - begin
    of = _by_kind(rows)
    sums = {name: sum(row[3] - row[2] for row in some) for name, some in of.items()}
    total = sum(sums.values())
    kernels = [row for row in rows if row[1]]
    joined = length(union((row[2], row[3]) for row in kernels)) / whole

    def is_(value: float) -> bool:
        return abs(got[kind] - value) < 1e-6

    if begin and all(abs(got[k] - want[k] * whole / end) < 1e-6 for k in ("compute", "nccl")):
        return "from_zero"  # all shares are smaller by the same factor
    if (
        kind == "compute"
        and of["nccl"]
        and (is_(joined) or is_((sums["compute"] + sums["nccl"]) / whole))
    ):
        return "nccl_in_compute"
    if kind != "idle" and is_(sums[kind] / total) and total != whole:
        return "of_the_busy"
    if (
        kind != "idle"
        and is_(sums[kind] / whole)
        and not abs(want[kind] - sums[kind] / whole) < 1e-6
    ):
        return "summed"
    if kind in ("nccl", "copy") and is_(0) and want[kind]:
        return "not_found"
    if kind == "idle" and is_(1 - got["compute"] - got["nccl"] - got["copy"]):
        return "idle_by_difference"
    if kind == "idle" and is_(1 - joined):
        return "copies_are_idle"
    if any(abs(got[k] - 100 * want[k]) < 1e-6 and want[k] for k in KINDS):
        return "percent"
    return "other"


def _by_kind(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "nccl": [row for row in rows if row[1] == NCCL],
        "copy": [row for row in rows if not row[1]],
        "compute": [row for row in rows if row[1] and row[1] != NCCL],
    }
