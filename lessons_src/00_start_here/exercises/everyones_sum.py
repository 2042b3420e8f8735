"""The second exercise: the sum of the numbers of all ranks, where one rank may have none.

Rank r holds 10**r, r + 1 times, so that the sum of three ranks reads 321: a digit says how often a
rank was heard.
"""

import math

import torch
import torch.distributed as dist

from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

from .my_share import joined

PAINTED = "rank r holds 10**r, r + 1 times"
EMPTY = "rank 0 has no numbers"


def painted(rank, n):
    return torch.full((rank + 1,), 10.0**rank)


def uneven(rank, n):
    return 1.0 + 2.0 * torch.arange(rank)


def first_odd(seen):
    """The first rank without exactly one number, where all came back."""
    if any(one.failure for one in seen):
        return None
    return next((one for one in seen if len(one.values) != 1), None)


def not_one(seen):
    one = first_odd(seen)
    if one is None or one.kind == "none":
        return False
    what = f"{math.prod(one.shape)} numbers" if one.kind == "tensor" else f"a {one.kind}"
    return {"rank": one.rank, "got": what}


def lengths(seen):
    """All called the same collectives, and gloo saw different things in them."""
    called = {tuple(one.collectives) for one in seen}
    return len(called) == 1 and any(one.failure and one.failure.mismatch for one in seen)


def empty(seen, case):
    own = [one for one in seen if one.failure and one.failure.own]
    return case == EMPTY and own[:1] == seen[:1] and {"error": own[0].failure.error}


def returned_early(seen):
    """Some waited in vain for a rank that had called no collective."""
    failures = [one.failure for one in seen if one.failure]
    absent = [one.rank for one in seen if not one.collectives]
    if not failures or not absent or any(failure.own for failure in failures):
        return False
    return {"rank": absent[0]}


def local(got, seen, n):
    return n > 1 and not any(one.messages for one in seen) and {"got": joined(map(number, got))}


def to_one_rank(got, seen):
    other = next((rank for rank, value in enumerate(got) if value != got[0]), None)
    if other is None or sum(one.right for one in seen) != 1:
        return False
    return {"rank": other, "first": number(got[0]), "other": number(got[other])}


SUM = "numbers.sum()"  # words of the solution

EXERCISE = RankAnswer(
    solution("everyones_sum", globals()),
    cases=[
        (1, PAINTED, painted),
        (3, PAINTED, painted),
        (3, EMPTY, uneven),
        (4, PAINTED, painted),
        (4, EMPTY, uneven),
    ],
    same=1e-6,
    wire=lambda seen: bool(seen.messages),
    mistakes=[
        Mistake("lengths", {SUM: "numbers", "return total": f"return {SUM}"}, when=lengths),
        Mistake("empty", {SUM: "numbers.cumsum(0)[-1]"}, when=empty, hangs=True),
        Mistake("returned_early",
                {"total =": f"if not len(numbers):\n        return {SUM}\n    total ="},
                when=returned_early,
                hangs=True),
        Mistake("not_one", {"return total": "return total.repeat(2)"}, when=not_one),
        Mistake("none", lambda numbers: dist.all_reduce(numbers.sum()),
                when=lambda seen: (one := first_odd(seen)) is not None and one.kind == "none"),
        Mistake("alone", {"return total": "return total * (dist.get_world_size() > 1)"},
                when=lambda got, n: n == 1),
        Mistake("local", lambda numbers: numbers.sum(), when=local),
        Mistake("to_one_rank", {"all_reduce(total)": "reduce(total, 0)"}, when=to_one_rank),
        ("one_number_each", {SUM: "numbers[:1].sum()"}),
        ("mean", {"return total": "return total / dist.get_world_size()"}),
        ("count", {SUM: "torch.tensor(float(len(numbers)))"}),
        (
            "ranks",
            {SUM: "torch.tensor(float(dist.get_rank() if dist.get_world_size() > 1 else 1))"},
        ),
        ("largest", {"all_reduce(total)": "all_reduce(total, dist.ReduceOp.MAX)"}),
        ("twice", {"return total": "dist.all_reduce(total)\n    return total"}),
    ],
    facts=lambda got, want, n: {
        "got": number(got[0]),
        "right": number(want[0]),
        "world_size": n,
        "last": n - 1,
    },
    passed=lambda: Passed(note="Every rank has the sum, on 1, 3 and 4 ranks."),
)  # fmt: skip
