"""Check what a student claims about the curves, and everything at once.

A claim that is not the median of the repeats is told which other number it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from dtlib.study import scaling
from dtlib.study.capstone import review
from dtlib.study.capstone.evidence import SHARES, Evidence
from dtlib.study.capstone.review import Fault, Row, Rows, listed, number, of_curve
from dtlib.study.capstone.words import Words, results_in


def of_everything(evidence: Evidence, words: Words) -> list[Fault]:
    """Check the curves, the kept rows, the student's claims, and the numbers in the text."""
    found = []
    for kind in scaling.KINDS:
        if kind in evidence.studies:
            found += of_curve(kind, evidence.studies[kind])
    found += review.of_kept(evidence.kept)
    for claim in words.claims:
        found += of_claim(claim, evidence.studies)
    return found + of_words(words, evidence)


def of_claim(claim: Row, studies: Mapping[str, Rows]) -> list[Fault]:
    """Check one claim of the student: `study`, `ranks` (or `gpus`), `efficiency`, `extrapolated`.

    A claim is right if it is the median of the repeats, each relative to one rank in its own turn,
    to two decimals. A claim that is another number is told which one.
    """
    kind, value = str(claim.get("study")), number(claim.get("efficiency"))
    n = claim.get("gpus", claim.get("ranks"))
    said = f"You claim an efficiency of {claim.get('efficiency')} on {n} for {kind} scaling"
    rows = studies.get(kind, [])
    if kind not in scaling.KINDS or not rows:
        there = " and ".join(k for k in scaling.KINDS if studies.get(k)) or "none"
        return [Fault("no_study", f"{said}, and the studies here are {there}: add that study.")]
    if value is None or not isinstance(n, int):
        why = "a claim needs a number of ranks and a number for its efficiency, such as 0.83"
        return [Fault("no_number", f"{said}: {why}.")]
    if "gpus" in claim and not any(row["gpus_per_node"] for row in rows):
        return [Fault(
            "gpus_and_ranks",
            f"{said}, and those are GPUs, while the study ran {n} ranks on the device"
            f" {rows[0]['device']}: write ranks.",
        )]  # fmt: skip
    if of_curve(kind, rows):
        return []  # the curve is refused, so there is no number to compare with
    counts = sorted({row["world_size"] for row in rows})
    if n in counts:
        return _wrong(said, value, kind, n, rows)
    if claim.get("extrapolated"):
        return []
    return [Fault(
        "extrapolated",
        f"{said}, and it was measured on {listed(counts)}: measure it, or mark the claim with"
        " `extrapolated: true`.",
    )]  # fmt: skip


def _wrong(said: str, value: float, kind: str, n: int, rows: Rows) -> list[Fault]:
    """Return the fault of a claim about measured ranks: which other number it is."""
    right = statistics.median(scaling.paired(rows)[n])
    if _close(value, right):
        return []
    if _close(value / 100, right):
        return [Fault("percent", f"{said}, which is in per cent: write {right:.2f}, a share of 1.")]
    for key, other, what, remedy in _others(kind, n, rows):
        if _close(value, other):
            return [Fault(
                key,
                f"{said}, and that is {what}; the median of the repeats, each relative to one rank"
                f" in its turn, is {right:.2f}: {remedy}.",
            )]  # fmt: skip
    each = ", ".join(f"{one:.2f}" for one in scaling.paired(rows)[n])
    return [Fault(
        "not_measured",
        f"{said}, and the repeats gave {each}, with the median {right:.2f}: state the median and"
        " the range.",
    )]  # fmt: skip


def _others(kind: str, n: int, rows: Rows) -> Iterator[tuple[str, float, str, str]]:
    """Yield the numbers that people state instead: key, number, what it is, remedy."""
    each = scaling.paired(rows)[n]
    times = {k: [r["step_time_s"] for r in rows if r["world_size"] == k] for k in (1, n)}
    median = statistics.median(each)
    more = n if kind == "strong" else 1
    best = "state the median and the range; a reader who repeats it does not get the best"
    yield "best_of", max(each), "the best repeat", best
    yield "best_of", min(times[1]) / (more * min(times[n])), "the best times", best
    yield "mean", statistics.fmean(each), "the mean", "state the median"
    yield "speedup", n * median, f"{n} times the efficiency", f"divide by {n}"
    factor = 1 / n if kind == "weak" else n
    yield (
        "mixed",
        factor * median,
        (f"what the formula of {'strong' if kind == 'weak' else 'weak'} scaling gives"),
        f"use the formula of {kind} scaling",
    )
    fewest = min((row["world_size"] for row in rows if row["world_size"] > 1), default=n)
    if fewest < n:
        base = statistics.median(r["step_time_s"] for r in rows if r["world_size"] == fewest)
        against = base / (statistics.median(times[n]) * (n / fewest if kind == "strong" else 1))
        yield (
            "wrong_baseline",
            against,
            f"relative to {fewest} ranks",
            ("take the run on one rank as the baseline"),
        )


def _close(value: float, other: float) -> bool:
    """Whether a number as people write it is another one: within half of its second decimal."""
    return abs(value - other) <= 0.0051


def of_words(words: Words, evidence: Evidence) -> list[Fault]:
    """Check the percentages and ratios in the student's text: each must be in the records."""
    known = sorted(_known(evidence))
    found = []
    for part, written, value in results_in(words):
        if any(abs(value - one) <= 0.0051 * max(1, abs(one)) for one in known):
            continue
        near = min(known, key=lambda one: abs(one - value), default=None)
        nearest = "" if near is None else f" (the nearest is {near:.3g})"
        found.append(Fault(
            "not_measured",
            f"Your {part} says “{written}”, and no record has that number{nearest}: state what was"
            " measured, or say in the same sentence that it is simulated, cited or a target.",
        ))  # fmt: skip
    return found


def _known(evidence: Evidence) -> Iterator[float]:
    """Yield the shares and ratios that were measured, losses (1 - share) among them."""
    for kind in scaling.KINDS:
        rows = evidence.studies.get(kind, [])
        if rows and not of_curve(kind, rows):
            for n, each in scaling.paired(rows).items():
                for value in (statistics.median(each), min(each), max(each)):
                    yield from (value, 1 - value, value * n)
    for share in evidence.shares:
        yield from (share[name] for name in SHARES)
    for name in SHARES:
        if evidence.shares:
            yield statistics.median(share[name] for share in evidence.shares)
    for row in evidence.kept:
        found, source = number(row["measured"]), str(row["source"])
        if found is not None and source.startswith(("measured", "recorded")):
            yield from (found, found / 100, found - 1)
