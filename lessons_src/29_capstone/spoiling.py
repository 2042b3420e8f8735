"""Copies of a student's tables with one error planted in each, to see the checker find it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.study import scaling

Rows = Sequence[Mapping[str, Any]]


def spoiled(studies: Mapping[str, Rows]) -> dict[str, list[dict[str, Any]]]:
    """Return what was planted, and the rows of the strong study with that error."""
    strong = [dict(row) for row in studies["strong"]]
    many = [dict(row) for row in studies["weak"] if row["world_size"] > 1]

    def changed(alone: bool, **values: Any) -> list[dict[str, Any]]:
        """Change the runs on one rank, or all the others."""
        return [row | values if (row["world_size"] == 1) == alone else row for row in strong]

    return {
        "some runs are those of the weak study": [
            *(row for row in strong if row["world_size"] == 1), *many],
        "only the first repeat is kept": [row for row in strong if row["repeat"] == 0],
        "the run on one rank is DDP": changed(True, strategy="ddp"),
        "there is no run on one rank": [row for row in strong if row["world_size"] > 1],
        "the MFU is 1.3": changed(False, mfu=1.3),
        "some runs had another device": changed(False, device="another device"),
        "ranks share one GPU": changed(False, nodes=1, gpus_per_node=1),
        "some runs are simulated": changed(False, measured_or_simulated="simulated"),
    }  # fmt: skip


def claims_of(studies: Mapping[str, Rows]) -> dict[str, dict[str, Any]]:
    """Return what is wrong with a claim about the strong study, and the claim."""
    each = scaling.paired(studies["strong"])
    most = max(each)
    best, middle = max(each[most]), statistics.median(each[most])
    found = {
        "a claim beyond the measured ranks": {
            "study": "strong", "ranks": 8 * most, "efficiency": round(middle, 2)},
    }  # fmt: skip
    if not any(row["gpus_per_node"] for row in studies["strong"]):
        found["ranks are called GPUs"] = {
            "study": "strong", "gpus": most, "efficiency": round(middle, 2)}  # fmt: skip
    if abs(best - middle) > 0.0051:  # otherwise the best repeat is the median, to two decimals
        found["the best repeat is claimed"] = {
            "study": "strong", "ranks": most, "efficiency": round(best, 2)}  # fmt: skip
    return found
