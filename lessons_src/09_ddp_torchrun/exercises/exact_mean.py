"""Exercise 9.2: the mean over all samples, some of which padding has put on two ranks.

The values are powers of ten, so a sum shows what is in it: 11111 has every sample once, 21111 has
the first one twice.
"""

import math
import re

import torch
import torch.distributed as dist

from dtlib.learn.explanations import cut, near, nothing_back, number, numbers, reduced
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

PAINTED = (10000, 1000, 100, 10, 1)
ALIKE = (2.5, 2.5, 2.5, 2.5, 4, 4, 12)  # a value that comes twice may be two samples
SINGLE = (6,)
SMALL = (0.0123, 0.0457, 0.0291, 0.0316)  # whose mean has many digits, and is far below 1
WHOLE = (100000, *PAINTED)  # two for each of three ranks, without padding
MINE = "values[places < samples]"  # words of the solution


def dealt(samples, n):
    """The values of each rank: dealt like cards, and padded with the first ones."""
    row = (samples * n)[: -(-len(samples) // n) * n]
    return [list(row[rank::n]) for rank in range(n)]


def case(n, samples):
    return (
        n,
        f"{len(samples)} sample{'s' * (len(samples) > 1)} of {', '.join(map(str, samples))}",
        lambda rank, n: (torch.tensor(dealt(samples, n)[rank]).float(), len(samples)),
    )


def run(answer, values, samples):
    """The mean. Not for the caller to find: another tensor."""
    before = values.clone()
    mean = answer(values, samples)
    if not torch.equal(values, before):
        raise Wrong("changed", rank=dist.get_rank(), n=dist.get_world_size())
    return mean


def real(values, samples):
    """The values of each rank without padding."""
    n = len(values)
    return [own[: len(range(rank, samples[0], n))].tolist() for rank, own in enumerate(values)]


def gathered(values):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.cat(parts)


def gathers_uneven(values, samples):
    return gathered(values[: len(range(dist.get_rank(), samples, dist.get_world_size()))]).mean()


def uneven_gather(seen, values, samples):
    """The ranks' tensors did not match in a collective, and without padding some are shorter."""
    counts = [len(own) for own in real(values, samples)]
    short = [rank for rank, own in enumerate(values) if counts[rank] < len(own)]
    told = [one.failure.message for one in seen if one.failure and one.failure.mismatch]
    if not short or not any("ALLGATHER" in words for words in told):
        return False
    return {"first": counts[0], "rank": short[-1], "other": counts[short[-1]]}


def dtypes(seen):
    """The ranks' tensors in one collective were of different kinds."""
    told = " ".join(one.failure.message for one in seen if one.failure and one.failure.mismatch)
    kinds = sorted({kind.lower() for kind in re.findall(r"TensorDtypes=(\w+)", told)})
    return len(kinds) > 1 and {"kinds": " and ".join(kinds)}


def own_count(got, values, samples):
    """Each rank divided the sum over all samples by a count of its own."""
    total = sum(map(sum, real(values, samples)))
    for hands in (real(values, samples), values):
        if all(near(value * len(own), total) for value, own in zip(got, hands, strict=True)):
            return {"count": len(hands[0])}
    return False


def nan(got, samples, n):
    """nan, where some ranks have nothing but padding; the first of them is named."""
    return samples[0] < n and any(map(math.isnan, got)) and {"rank": samples[0]}


def stayed_home(got, values, samples, n):
    """Each rank has the mean of its own values, with padding or without."""
    for hands in (real(values, samples), values):
        pairs = [(value, own) for value, own in zip(got, hands, strict=True) if len(own)]
        if n > 1 and all(near(value, float(sum(own)) / len(own)) for value, own in pairs):
            return {"got": numbers(got)}
    return False


def own_share(got, values, samples, n):
    """Each rank has the sum of its own values, with padding or without, over all samples."""
    for hands in (real(values, samples), values):
        sums = [float(sum(own)) / samples[0] for own in hands]
        if n > 1 and all(map(near, got, sums)):
            return {"got": numbers(got)}
    return False


def facts(got, values, samples, n):
    rows = sum(map(len, values))
    return {
        "got": number(got[0]), "total": number(sum(map(sum, real(values, samples)))),
        "padded": number(sum(own.sum().item() for own in values)), "rows": rows,
        "samples": samples[0], "extra": rows - samples[0],
    }  # fmt: skip


def passed(seen):
    first = seen[-1][0]
    given = sum(message.bytes for message in first.messages)
    return Passed(
        (
            ("calls of a collective", len(first.collectives), 1, ""),
            ("bytes given to it by rank 0 of 4", given, 8, "bytes"),
        )
    )


exact_mean = solution("exact_mean", globals())

EXERCISE = RankAnswer(
    exact_mean,
    run=run,
    # On one rank a sum over ranks and a mean over ranks are the same: three ranks tell them apart.
    cases=[
        case(1, SINGLE),
        *(case(3, samples) for samples in (PAINTED, ALIKE, SINGLE, WHOLE, SMALL)),
        *(case(4, samples) for samples in (PAINTED, ALIKE, SINGLE)),
    ],
    mistakes=[
        Mistake("dtypes", {"torch.tensor(float(len(mine)))])": "torch.tensor(float(len(mine)))])\n"
                           "    sum_and_count = sum_and_count.to([torch.float32, torch.int64]"
                           "[len(mine) == 0])"}, when=dtypes),
        Mistake("uneven_gather", gathers_uneven, when=uneven_gather),
        Mistake("left_early",
                lambda values, samples: (
                    exact_mean(values, samples) if dist.get_rank() < samples else 0.0
                ),
                hangs=lambda rank, samples: "a collective" if rank < samples else None),
        Mistake("in_place",
                lambda values, samples: dist.all_reduce(torch.tensor([values.sum(), 1.0])),
                when=nothing_back),
        Mistake("nan", {"mine.sum()": "mine.mean() * len(mine)"}, when=nan),
        ("counts_padding", {MINE: "values"}),
        ("padding_in_sum", {MINE: "values", "/ count": "/ samples"}),
        ("padding_in_count", {"len(mine)": "len(values)"}),
        ("mean_of_means", {"mine.sum()": "mine.sum() / max(1, len(mine))", "/ count": "/ n"}),
        ("by_ranks", {"/ count": "/ n"}),
        Mistake("own_count", {"/ count": "/ max(1, len(values))"}, when=own_count),
        ("sum_only", {" / count": ""}),
        ("whole_numbers", {"mine.sum()": "mine.sum().floor()"}),
        ("order_of_ranks", lambda values, samples: gathered(values)[:samples].mean()),
        ("unique", lambda values, samples: gathered(values).unique().mean()),
        ("last_of_all", {MINE: "values[: max(1, len(values) - 1)]"}),
        ("last_of_all", {MINE: "values if n == 1 or rank < samples % n else values[:-1]"}),
        ("first_ranks", {MINE: "values[:-1] if rank < -samples % n else values"}),
        Mistake("stayed_home", lambda values, samples: values.mean(), when=stayed_home),
        Mistake("own_share", {"dist.all_reduce(sum_and_count)": "", "/ count": "/ samples"},
                when=own_share),
        ("divided_twice", {"/ count": "/ count / n"}),
        Mistake("rounded", lambda values, samples: round(exact_mean(values, samples), 1), when=cut),
        Mistake("reduce", {"all_reduce(sum_and_count)": "reduce(sum_and_count, 0)"}, when=reduced),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
