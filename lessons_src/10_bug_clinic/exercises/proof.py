"""What a trial proves of a cure: what the ranks report, and what they did beside that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from dtlib.learn.alike import alike

from ..cases import given
from ..trial import GONE, RAISED, RAN, WAITED, Program, Trial
from ..ward import in_words, short

SAME = 1e-5  # relative: sums in another order differ in their last bits, and fp16 is between
Key = tuple[int, int]  # how many ranks, and which case


@dataclass(frozen=True)
class Proof:
    """Two programs have the same one exactly when nothing tells them apart.

    `reports` is what must be true of what the ranks report, `stopped` how some rank ended before it
    returned, `odd` the first collective that was not the same on all ranks, `chance` the ranks that
    report something else in a second run, and `talks` whether ranks talk to each other at all.
    """

    reports: dict[Key, Any]
    stopped: dict[str, Any] | None
    odd: dict[str, Any] | None
    chance: list[int]
    talks: bool
    raw: dict[Key, list[Any]] = field(compare=False)


def proof(program: Program, trial: Trial) -> Proof:
    """What a trial proves."""
    name, text = program
    runs = {
        key: ranks for key, ranks in trial.items() if all(one["status"] == RAN for one in ranks)
    }
    ends = [(key, ranks) for key, ranks in trial.items() if key not in runs]
    first = {(n, case): ranks for (n, case, turn), ranks in runs.items() if not turn}
    return Proof(
        reports={key: summary(name, ranks) for key, ranks in first.items()},
        stopped=stopped(text, *ends[0]) if ends else None,
        odd=next(filter(None, (odd(n, ranks) for (n, _), ranks in first.items())), None),
        chance=chance(runs),
        talks=any(one["calls"] or one["messages"] for ranks in first.values() for one in ranks),
        raw={key: [one["report"] for one in ranks] for key, ranks in first.items()},
    )


def summary(name: str, ranks: list[dict[str, Any]]) -> Any:
    """What the ranks report; where that may be any of many, what must be true of it."""
    reports = [one["report"] for one in ranks]
    if name == "p05":
        given_one = sum(one["port"] in one["ports"] for one in ranks)
        return [given_one, sum(bool({*one["ports"]} - {one["port"]}) for one in ranks)]
    if name == "p06":
        names = [", ".join(sorted(map(str, flat(one)))) or "no checkpoint" for one in reports]
        return [sum(bool(one["written"]) for one in ranks), *names]
    if name == "p07":
        return groups(list(map(numbers, reports)))
    if name == "p08":
        return orders([numbers(one) for one in reports])
    return [numbers(one) for one in reports]


def numbers(report: Any) -> Any:
    """A report without its names: those are the program's own."""
    return list(report.values()) if isinstance(report, dict) else ["no dict", str(report)[:40]]


def flat(report: Any) -> list[Any]:
    """A report's numbers or names in one list."""
    if isinstance(report, (list, dict)):
        return [
            x
            for one in (report.values() if isinstance(report, dict) else report)
            for x in flat(one)
        ]
    return [report]


def groups(noise: list[Any]) -> int:
    """How many ranks have noise of their own: none that another one has, shifted or not."""
    try:
        draws = [torch.tensor(one, dtype=torch.float64).reshape(-1, 64) for one in noise]
    except (TypeError, ValueError, RuntimeError):
        return 0
    own = 0
    for rank, mine in enumerate(draws):
        before = torch.cat([*draws[:rank], torch.arange(64.0)[None]])
        both = torch.corrcoef(torch.cat([before, mine]))
        across = both[: len(before), len(before) :].abs()
        own += not bool((across > 0.9).any())
    return own


def orders(ranks: list[Any]) -> list[bool]:
    """Whether orders and shares differ from epoch to epoch, and each epoch has each sample once."""
    try:
        epochs = list(zip(*ranks, strict=True))  # for each, what every rank takes
        orders = {tuple(map(tuple, epoch)) for epoch in epochs}
        shares = {tuple(tuple(sorted(one)) for one in epoch) for epoch in epochs}
        taken = [[sample for one in epoch for sample in one] for epoch in epochs]
    except (TypeError, ValueError):
        return [False]
    extra = -12 % len(ranks)  # samples that come twice where 12 cannot be divided
    once = all(set(one) == set(range(12)) and len(one) == 12 + extra for one in taken)
    return [len(orders) == 3, len(shares) == 3 or len(ranks) == 1, once]


def stopped(text: str, key: tuple[int, int, int], ranks: list[Any]) -> dict[str, Any]:
    """The first rank that raised, or else all that waited, with their lines."""
    n, case, _ = key
    lines = text.splitlines()
    raised = [(rank, one) for rank, one in enumerate(ranks) if one["status"] == RAISED]
    late = [pair for pair in raised if pair[1]["error"] != "TooLong"] or raised
    waiting = [(r, one) for r, one in enumerate(ranks) if one["status"] in (WAITED, GONE)]
    who = late or waiting
    rank, first = who[0]
    paths = Counter(path for one in ranks for path in set(one["written"]))
    places = {r: one["line"] for r, one in who}
    return {
        "n": n, "case": case, "rank": rank, "ranks": [r for r, _ in who], "lines": places,
        "error": first["error"] if late else "waits",
        "message": first["message"].strip().split("\n")[0][:160].rstrip(".!"),
        "share": max(paths.values(), default=0),
        "texts": {r: lines[line - 1].strip() if line else "" for r, line in places.items()},
    }  # fmt: skip


def odd(n: int, ranks: list[Any]) -> dict[str, Any] | None:
    """The first place at which ranks called different collectives, though nobody stopped."""
    every = [one["calls"] for one in ranks]
    for place in range(max(map(len, every))):
        calls = [calls[place] if place < len(calls) else "nothing" for calls in every]
        for rank, call in enumerate(calls):
            if call != calls[0]:
                return {"n": n, "place": place + 1, "rank": rank, "mine": call, "first": calls[0]}
    return None


def chance(runs: Trial) -> list[int]:
    """The ranks that report something else when the first case is run once more."""
    again = next(((n, case) for n, case, turn in runs if turn), None)
    if again is None:
        return []
    pairs = zip(runs[*again, 0], runs[*again, 1], strict=True)
    return [r for r, (a, b) in enumerate(pairs) if not alike(a["report"], b["report"], SAME)]


def differences(got: Proof, want: Proof) -> list[Key]:
    """Numbers of ranks and cases in which two proofs differ."""
    mine, right = got.reports, want.reports
    return [key for key in right if not alike(mine.get(key), right[key], SAME)]


def shown_given(name: str, rank: int, n: int, case: int) -> str:
    """What a rank was given, in words: "seed = 3"."""
    return in_words([given(name, rank, n, case)])[0].removeprefix("given: ")


def cured(got: Proof, want: Proof) -> tuple[list[int], list[int]]:
    """The numbers of ranks on which every case is right, and the others."""
    sizes = sorted({n for n, _ in want.reports})
    bad = {n for n, _ in differences(got, want)}
    return [n for n in sizes if n not in bad], [n for n in sizes if n in bad]


def listed(numbers: list[int]) -> str:
    """Numbers as a sentence has them: "2, 3 and 5"."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def ranks_in_words(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {listed(ranks)}"


def report_in_words(report: Any) -> str:
    """What a rank reports, as the notebook prints it, up to a length."""
    try:
        text = ", ".join(f"{name} {short(value)}" for name, value in report.items())
    except (AttributeError, TypeError, ValueError):
        text = str(report)
    return text if len(text) < 80 else f"{text[:80]}…"
