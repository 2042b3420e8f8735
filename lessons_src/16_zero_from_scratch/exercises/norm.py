"""Exercise 16.2b: the norm of a gradient of which every rank holds a part."""

import math

import torch
import torch.distributed as dist

from dtlib.learn.explanations import nothing_back, number, numbers, reduced
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent

# All norms are whole numbers: 3, 4 and 12 make 13. Long shards reveal an answer that gathers them.
LONG = 25
A_FEW = 4
SHARDS = (
    ((3, -4),),
    ((3, 0), (0, 4), (0, 12)),
    ((3,) * LONG, (4,) * LONG, (12,) * LONG),
    ((2, 0), (0, 4), (5, 0), (0, -6)),
    ((2,), (-3,), (6,), ()),
)

global_norm = solution("global_norm", globals())


def case(shards):
    """Each rank is handed its shard."""
    words = ", ".join(map(listed, shards))
    made = [torch.tensor(own, dtype=torch.float32) for own in shards]
    return len(shards), f"shards {words}", lambda rank, n: made[rank].clone()


def listed(shard):
    """A shard in words, a short one in full."""
    if len(shard) == LONG:
        return f"{LONG} times {number(shard[0])}"
    return f"({', '.join(map(number, shard))})"


def run(answer, shard):
    """What the answer returns, if it leaves the shard as it was."""
    before = shard.clone()
    found = answer(shard)
    if found is not None and not torch.equal(shard, before):
        was, now = numbers(before.tolist()), numbers(shard.tolist())
        raise Wrong("changed", rank=dist.get_rank(), got=now, was=was)
    return found


def facts(got, want, shard):
    lengths = [math.hypot(*own.tolist()) for own in shard]
    rank = next((k for k, (x, y) in enumerate(zip(got, want, strict=True)) if x != y), 0)
    return {
        "has": number(got[rank]), "rank": rank,
        "got": numbers(got), "norms": " + ".join(map(number, lengths)), "first": number(lengths[0]),
        "second": number(lengths[-1] if len(lengths) < 2 else lengths[1]),
        "want": number(want[0]), "squares": number(sum(x**2 for x in lengths)),
    }  # fmt: skip


def waste(seen, n):
    """One number from each rank is enough; a few more are allowed, but not the whole gradient."""
    for one in seen if n > 1 else ():
        if elements_sent(one.messages, n) > A_FEW * (n - 1):  # more than A_FEW from each rank
            given = sum(message.elements for message in one.messages)
            return Wrong("whole_gradient", given=given, rank=one.rank)
    return None


def passed(seen):
    return Passed(((f"norm of {case(SHARDS[-1])[1]}", number(seen[-1][0].got), 7, ""),))


EXERCISE = RankAnswer(
    global_norm,
    run=run,
    cases=[case(shards) for shards in SHARDS],
    mistakes=[
        ("own", {"dist.all_reduce(squares)": "pass"}),
        ("added", {"square().sum": "norm", ".sqrt()": ""}),
        ("no_root", {".sqrt()": ""}),
        ("mean_of_norms", {"square().sum": "norm", ".sqrt()": " / dist.get_world_size()"}),
        ("mean_of_squares", {"squares.sqrt": "(squares / dist.get_world_size()).sqrt"}),
        ("largest",
         {"square().sum": "norm", "(squares)": "(squares, dist.ReduceOp.MAX)", ".sqrt()": ""}),
        ("signed", {"square().": "", "sqrt": "abs"}),
        Mistake("left_early", lambda shard: global_norm(shard) if len(shard) else 0.0,
                hangs=lambda shard: "a collective" if len(shard) else None),
        Mistake("reduce", {"all_reduce(squares)": "reduce(squares, 0)"}, when=reduced),
        Mistake("in_place", {"dist.all": "return dist.all"}, when=nothing_back),
        Mistake("length", {"squares.sqrt()": "2 * squares.sqrt()"}, when=lambda got: True),
    ],
    wire=lambda seen: None,  # the norm tells how it was made
    facts=facts,
    waste=waste,
    passed=passed,
)  # fmt: skip
