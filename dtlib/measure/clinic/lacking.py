"""What the ranks have not left, and would tell more."""

from __future__ import annotations

from collections.abc import Iterator

from dtlib.measure.clinic.evidence import Evidence
from dtlib.measure.clinic.findings import listed

LAG = 10.0
"""Seconds that a rank's last record may be older than the others' before that is said."""


def behind(evidence: Evidence, number: int) -> float:
    """Return by how many seconds a rank that runs left its last record before the others did."""
    rank = evidence.ranks.get(number)
    if rank is None or rank.taken is None or rank.ended or rank.died:
        return 0.0
    return max(other.taken or 0.0 for other in evidence.ranks.values()) - rank.taken


def _unseen_end(evidence: Evidence) -> Iterator[str]:
    """Name ranks that the recorder had last seen a while before another one died."""
    died = {r.number: r.died for r in evidence.ranks.values() if r.died}
    first = min(died, key=lambda rank: died[rank], default=-1)
    old = [
        rank.number
        for rank in evidence.ranks.values()
        if first >= 0 and not rank.ended and rank.taken and rank.taken < died[first] - 1
    ]
    if old:
        yield f"what {listed(sorted(old))} did after the last record and before rank {first} died"


def _records_that_stop(evidence: Evidence) -> Iterator[str]:
    """Name ranks whose last record is old, so that nobody takes it for what they do now."""
    for number in sorted(evidence.ranks):
        if (seconds := behind(evidence, number)) > LAG:
            others = f"the last {seconds:.0f} s, for which others left records"
            yield f"what rank {number} did in {others}"


def missing(evidence: Evidence) -> Iterator[str]:
    """Name what would tell more: dumps and stacks that some ranks left and others didn't."""
    everyone = range(evidence.world_size)
    left = [r for r in everyone if r in evidence.ranks]
    for kind, has in (
        ("flight-recorder dump", [r for r in left if evidence.ranks[r].dump]),
        ("stack", [r for r in left if evidence.ranks[r].where or evidence.ranks[r].ended]),
        ("log", [r for r in left if evidence.ranks[r].has_log]),
    ):
        lacking = [r for r in everyone if r not in has]
        if has and lacking:
            yield f"no {kind} of {listed(lacking)}"
    yield from _unseen_end(evidence)
    yield from _records_that_stop(evidence)
    yield from evidence.unread
    for rank in left:
        dump = evidence.ranks[rank].dump
        if dump and dump.calls and not any(call.where.line for call in dump.calls):
            yield f"the lines of rank {rank}'s collectives (the JSON form of a dump has none)"
