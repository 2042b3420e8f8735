"""Checksums that the ranks logged: from which step on they differ, and whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dtlib.measure.clinic.evidence import Evidence
from dtlib.measure.clinic.findings import Finding, listed


def differences(evidence: Evidence) -> Iterator[Finding]:
    """Yield the first step at which the checksums of the ranks differ, for each name."""
    ranks = sorted(evidence.ranks.values(), key=lambda rank: rank.number)
    for name in sorted({name for rank in ranks for name, _ in rank.log.checksums}):
        steps = sorted({s for rank in ranks for n, s in rank.log.checksums if n == name})
        for step in steps:
            values = {
                rank.number: value
                for rank in ranks
                if (value := rank.log.checksums.get((name, step))) is not None
            }
            if len(set(values.values())) > 1:
                yield _difference(name, step, steps[0] == step, values)
                break


def _difference(name: str, step: int, first: bool, values: dict[int, str]) -> Finding:
    counts = Counter(values.values())
    usual, times = counts.most_common(1)[0]
    known = list(counts.values()).count(times) == 1  # otherwise no value is the usual one
    odd = [rank for rank, value in values.items() if value != usual] if known else []
    told = ", ".join(f"rank {rank} has {value}" for rank, value in values.items())
    when = f"in step {step}, the first recorded" if first else f"first in step {step}"
    words = f"The {name} of {listed(odd or values)} differs {when}: {told}."
    return Finding("difference", odd[0] if odd else None, name, "", words)
