"""Exercise 7.3, first half: a reduce-scatter on a ring, and what the whole ring shares with it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rounds import painted, placed
from dtlib.learn.solutions import altered, solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.scratch.ring import exchange, ring_all_reduce

from . import ring_mistakes as told

FLOAT = 4  # bytes
HALVES = "(rank - s) % n, (rank - s - 1) % n"  # words of the solution


def cases(*last):
    """Equal chunks first: a message that is larger than its receiver makes gloo give up.

    `last` are the words and the maker of one more case, on three ranks and on four.
    """
    yield 1, "3 numbers", painted(3)
    for n, sizes in ((3, (6, 0, 7, 2)), (4, (8, 5, 2))):
        for size in sizes:
            label = f"{size} numbers" if size else "6 numbers, 1 to 6 times 10**r"
            yield n, label, painted(size) if size else placed(6)
        if last:
            yield n, *last


def sent(seen):
    """What two answers must have alike to be the same mistake."""
    return [m.values for m in seen.sent]


def remainder(x, n, seen):
    """Each rank has a stretch that may be its chunk, and together they are not all of x."""
    all_of_them = [
        summed(torch.tensor(one.values), own, rank, n)
        for rank, (one, own) in enumerate(zip(seen, x, strict=True))
    ]
    left = (sum(done.long() for done in all_of_them) == 0).nonzero().flatten().tolist()
    if not left:
        return None
    return Wrong("remainder", place=left[0], size=len(x[0]), chunks=len(x[0]) - len(left))


def one_step_more(n, seen, steps):
    """Right, with more steps than needed; the sentence counts those of the first half."""
    more = len(seen[0].sent) - steps
    return Wrong("extra_step", steps=n - 1 + more) if more > 0 else None


def summed(got, x, rank, n):
    """For each element whether it holds the sum over all ranks."""
    return got.flatten() == x / 10**rank * sum(10**r for r in range(n))


def finished_its_chunk(got, x, rank, n):
    """Whether one stretch of x is summed, and no other, and it can be chunk rank + 1.

    Where n divides the length that is one place. Else the task does not say where the remainder
    goes: spread over the first chunks or the last, all of it in one, or missing in the last ones.
    """
    if not isinstance(got, torch.Tensor) or got.numel() != x.numel():
        return False
    places = summed(got, x, rank, n).nonzero().flatten().tolist()
    even, more = divmod(len(x), n)
    if more == 0:
        return places == list(range((rank + 1) % n * even, ((rank + 1) % n + 1) * even))
    return len(places) <= even + more and places == list(range(len(x)))[slice_of(places)]


def slice_of(places):
    """From the first to the last."""
    return slice(places[0], places[-1] + 1) if places else slice(0)


def run(answer, x):
    """What came back; where that is right x counts, which the answer may have left alone."""
    before = x.clone()
    value = answer(x)
    if value is None or finished_its_chunk(value, before, dist.get_rank(), dist.get_world_size()):
        return x
    return value


def passed(seen):
    first = seen[5][0]  # of 4 ranks, with 8 numbers
    what = "bytes sent by rank 0 of 4 for 8 numbers"
    bytes_sent = (what, first.bytes_sent, 3 * 8 // 4 * FLOAT, "bytes")
    return Passed((("steps", len(first.sent), 3, ""), bytes_sent))


def running_total(x):
    total = x.clone()
    for _ in range(dist.get_world_size() - 1):
        arrived = torch.empty_like(total)
        exchange(total, arrived)
        total = total + arrived
    return total


def all_reduce(x):
    dist.all_reduce(x)
    return x


def on_a_copy(ring):
    def alone(x):
        ring(x.clone())
        return x

    return alone


ring_reduce_scatter = solution("ring_reduce_scatter", globals())
TUPLE = {"chunks[into].add_(arrived)": "chunks[into] += arrived"}
CUT, SHORT = "x.tensor_split(n)", "[x[k * (len(x) // n) :][: len(x) // n] for k in range(n)]"
AGAINST = altered(ring_reduce_scatter, {HALVES: "(rank + s) % n, (rank + s + 1) % n"})
PIECES = {"tensor_split": "chunk"}
# The solution with other words in it, and how to recognise it.
ALTERED: list[tuple[str, dict[str, str], Callable[..., Any]]] = [
    ("alone", {"range(n - 1)": "range(n)"}, told.alone),
    ("overwrote", {"add_": "copy_"}, told.overwrote),
    ("same_chunk", {HALVES: "rank, (rank - 1) % n"}, told.same_chunk),
    ("wrong_chunk", {"rank - s - 1": "rank - s + 1"}, told.wrong_chunk),
]


def mistakes(ring, whole=lambda first: first):
    """Those that both halves share: `whole` makes a ring of a first half."""
    yield Mistake("collective", all_reduce, told.collective)
    for key, words, when in ALTERED:
        yield Mistake(key, whole(altered(ring_reduce_scatter, words)), when)
    yield Mistake("silent", lambda x: x * 1, told.silent)
    yield Mistake("running_total", running_total, told.running_total)
    yield Mistake("new_object", on_a_copy(ring), told.new_object)


EXERCISE = RankAnswer(
    ring_reduce_scatter,
    cases=list(cases()),
    run=run,
    judge=finished_its_chunk,
    wire=sent,
    collectives=False,
    mistakes=[
        *mistakes(ring_reduce_scatter),
        Mistake("chunk", PIECES, told.chunk, hangs=True),
        Mistake("tuple", TUPLE, told.of_a_tuple, hangs=True),
        ("remainder", {CUT: SHORT}),
        Mistake("mixed", when=told.mixed),
        Mistake("other_owner", AGAINST, told.other_owner),
        Mistake("both_halves", ring_all_reduce, told.both_halves),
    ],
    waste=lambda x, n, seen: remainder(x, n, seen) or one_step_more(n, seen, n - 1),
    passed=passed,
)
