"""A program that hung on four ranks under torchrun, as `dtlib clinic record` kept it in `hung/`.

It was recorded on gloo, torch 2.14, by tests/fixtures/clinic/make.py: programs/evaluation.py.
"""

from __future__ import annotations

from pathlib import Path

from dtlib.measure.clinic import evidence, verdict
from dtlib.measure.clinic.dumps import Call

FOLDER = Path(__file__).parent / "hung"


def hung() -> verdict.Report:
    """Return what the clinic says of the records."""
    return verdict.examine(evidence.gather([FOLDER]))


def calls() -> dict[int, tuple[Call, ...]]:
    """Return the collectives of each rank, in order."""
    ranks = evidence.gather([FOLDER]).ranks
    return {number: rank.dump.calls for number, rank in sorted(ranks.items()) if rank.dump}
