"""Exercise 7.1: the mean over everybody's values, where one rank may have none."""

import math

import torch
import torch.distributed as dist

from dtlib.learn.explanations import (
    near,
    not_waited,
    nothing_back,
    number,
    numbers,
    reduced,
)
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# In the second case the means are 0, 2 and 8, the sum of six values is 36, and their mean 6: each
# mistake has a number of its own.
LISTS = (
    ((4,),),
    ((), (1, 3), (5, 7, 9, 11)),
    ((3,), (1, 1, 1, 1, 2), ()),
    ((1,), (2, 4), (), (3, 3, 10, 11)),
)
WORDS = {2: "two", 3: "three", 4: "four"}
BOTH = "values.sum(), float(len(values))"  # words of the solution


def case(lists):
    """Each rank is handed its list."""
    said = (f"[{', '.join(map(number, values))}]" for values in lists)
    return (
        len(lists),
        f"values {', '.join(said)}",
        lambda rank, n: torch.tensor(lists[rank], dtype=torch.float32),
    )


def nan(got, values):
    """Where one rank has a nan and nothing to make a mean of."""
    empty = [rank for rank, own in enumerate(values) if not len(own)]
    bad = [rank for rank, value in enumerate(got) if math.isnan(value)]
    if not empty or not (len(bad) == len(got) or bad[:1] == empty[:1] == [0]):
        return False
    who = "All ranks" if len(bad) == len(got) else f"Rank {empty[0]}"
    return {"who": who, "rank": empty[0]}


def by_own_count(got, values):
    total = sum(own.sum().item() for own in values)
    pairs = zip(got, values, strict=True)
    return len(got) > 1 and all(near(v, total / len(own)) for v, own in pairs if len(own))


def another_order(got, want, values, seen):
    """Two calls, sum and count, which two ranks made in opposite orders."""
    sum_first, count_first = [], []
    for own, one in zip(values, seen, strict=True):
        brought = [m.values for m in one.messages if m.kind == "all_reduce"]
        pair = [(own.sum().item(),), (float(len(own)),)]
        if sorted(brought) != sorted(pair):
            return False
        # Of two equal numbers only what came back tells which was brought first.
        same = pair[0] == pair[1]
        if near(got[one.rank], want[one.rank]) if same else brought == pair:
            sum_first.append(one.rank)
        elif brought == pair[::-1]:
            count_first.append(one.rank)
    return bool(sum_first and count_first) and {"other": sum_first[0], "rank": count_first[0]}


def mixed_order(values):
    pair = [values.sum(), torch.tensor(float(len(values)))]
    for one in pair if dist.get_rank() else pair[::-1]:
        dist.all_reduce(one)
    return pair[0] / pair[1]


def waste(seen):
    """A sum that was only started is right by luck alone."""
    found = not_waited(seen)
    return Wrong("never_waited", **found) if found else None


def facts(got, values, n):
    lists = [own.tolist() for own in values]
    means = [sum(own) / len(own) if own else 0.0 for own in lists]
    which = f"the {WORDS.get(n, n)} ranks' own means {_and(means)}"
    if not near(got[0], sum(means) / n):
        have = [mean for mean, own in zip(means, lists, strict=True) if own]
        which = f"the own means {_and(have)} of the ranks that have any"
    big = max(range(n), key=lambda rank: len(lists[rank]))
    sums = {"total": number(sum(map(sum, lists))), "count": sum(map(len, lists))}
    return {"got": numbers(got), "which": which, "big": big, "have": len(lists[big]), **sums}


def _and(values):
    *most, last = map(number, values)
    return f"{', '.join(most)} and {last}" if most else last


def passed(seen):
    first, slowest = seen[-1][0], max(one.seconds for one in seen[-1])
    given = sum(message.bytes for message in first.messages)
    return Passed(
        (
            ("calls of a collective", len(first.collectives), 1, ""),
            ("bytes given to it by rank 0 of 4", given, 8, "bytes"),
        ),
        f"The slowest of 4 ranks took {slowest * 1e3:.1f} ms.",
    )


global_mean = solution("global_mean", globals())

EXERCISE = RankAnswer(
    global_mean,
    cases=[case(lists) for lists in LISTS],
    wire=lambda seen: (seen.bytes_sent, [m.waited for m in seen.messages]),
    mistakes=[
        Mistake("never_waited",
                {"all_reduce(sum_and_count)": "all_reduce(sum_and_count, async_op=True)"},
                when=not_waited),
        Mistake("another_order", mixed_order, when=another_order),
        ("mean_of_means", {BOTH: "values.mean() if len(values) else 0.0, 1.0"}),
        ("mean_of_means", {BOTH: "values.mean() if len(values) else 0, float(len(values) > 0)"}),
        Mistake("nan", {BOTH: "values.mean(), 1.0"}, when=nan),
        ("by_ranks", {"/ count": "/ dist.get_world_size()"}),
        ("sum_only", {" / count": ""}),
        Mistake("by_own_count", {"/ count": "/ max(len(values), 1)"}, when=by_own_count),
        ("stayed_home", lambda values: values.sum() / max(len(values), 1)),
        Mistake("reduce", {"all_reduce(sum_and_count)": "reduce(sum_and_count, 0)"}, when=reduced),
        Mistake("left_early", lambda values: global_mean(values) if len(values) else 0.0,
                hangs=lambda values: "a collective" if len(values) else None),
        Mistake("in_place",
                lambda values: dist.all_reduce(torch.stack([values.sum(), torch.tensor(1.0)])),
                when=nothing_back),
    ],
    waste=waste,
    facts=facts,
    passed=passed,
)  # fmt: skip
