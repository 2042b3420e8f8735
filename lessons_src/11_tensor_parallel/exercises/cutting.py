"""What the checks of lesson 11 share: a call that is watched, and the books of its messages."""

import re

import torch
import torch.distributed as dist
from torch.utils.flop_counter import FlopCounterMode

from dtlib.learn.explanations import not_waited, number
from dtlib.learn.reports import close
from dtlib.learn.verdicts import Wrong
from dtlib.learn.wire import WireLog, elements_sent

SAME = 1e-6  # the checks compute in fp64
SLACK = 1.5  # of the operations of a rank's part; computing one of two matrices whole doubles them


def drawn(seed, *sizes):
    """A matrix with one digit behind the point, the same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*sizes, generator=generator, dtype=torch.float64) * 10).round() / 10


def watched(answer, given, right, share):
    """Call an answer, and refuse one that is right but changed what it got, or did too much.

    Parameters
    ----------
    given
        The arguments.
    right
        The result in one process.
    share
        Floating-point operations of a rank that computes only its part.
    """
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in given]
    with WireLog() as log, FlopCounterMode(display=False) as counter:
        found = answer(*given)
    if not isinstance(found, torch.Tensor) or not close(found, right, SAME):
        return found
    for k, (was, now) in enumerate(zip(before, given, strict=True)):
        if isinstance(now, torch.Tensor) and not torch.equal(was, now):
            raise Wrong("changed", rank=dist.get_rank(), place=k + 1)
    did, summed = counter.get_total_flops(), {m.kind for m in log.messages} <= {"all_reduce"}
    if summed and did > SLACK * share:
        raise Wrong(
            "whole", rank=dist.get_rank(), n=dist.get_world_size(), did=did, share=int(share)
        )
    return found


def facts(got, want):
    """The first number of a rank that is wrong, and of another one, and the right one."""
    rank = next((k for k, (x, y) in enumerate(zip(got, want, strict=True)) if x != y), 0)
    other = (rank + 1) % len(got)
    first = [values[0] if isinstance(values, list) and values else values for values in got]
    goal = want[rank][0] if isinstance(want[rank], list) else want[rank]
    if not all(isinstance(value, (int, float)) for value in (*first, goal)):
        return {"rank": rank, "other": other, "got": "other numbers", "want": "another number",
                "others": "other numbers"}  # fmt: skip
    return {"rank": rank, "other": other, "got": number(first[rank]), "want": number(goal),
            "others": number(first[other])}  # fmt: skip


def too_much(seen, enough, n):
    """A sum that nobody waited for, or more elements than one all-reduce of the result."""
    started = not_waited(seen)
    if started:
        return Wrong("never_waited", **started)
    for one in seen:
        sent = elements_sent(one.messages, n)
        if sent > 2 * (n - 1) / n * enough + 1e-9:
            calls = one.collectives
            key = "two_sums" if calls == ["all_reduce", "all_reduce"] else "gathers"
            words = {"sent": number(sent), "enough": number(2 * (n - 1) / n * enough)}
            said = " and ".join(dict.fromkeys(calls)) or "send"
            return Wrong(key, rank=one.rank, n=n, calls=said, **words)
    return None


def misfit(seen):
    """The first product of two matrices that do not fit: its rank, and rows and columns of both."""
    for one in seen if len(seen) > 1 else ():
        message = one.failure.message if one.failure else ""
        found = re.search(r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", message)
        if found:
            return one.rank, *map(int, found.groups())
    return None


def rows_of_all(seen):
    """Some columns of the middle, and all rows of the second matrix: `2x2 and 6x4`."""
    rank, rows, columns, more, right = misfit(seen) or (0, 0, 0, 0, 0)
    return columns < more and {"rank": rank, "two": f"{rows}x{columns} and {more}x{right}"}


def rows_of_the_first(seen):
    """All columns of x, and some rows of the first matrix: `2x4 and 2x6`."""
    rank, rows, columns, fewer, right = misfit(seen) or (0, 0, 0, 0, 0)
    return columns > fewer and {"rank": rank, "two": f"{rows}x{columns} and {fewer}x{right}"}


def fails_with(seen, words):
    """Whether a rank failed with these words in its error: the first of them."""
    for one in seen:
        if one.failure and one.failure.own and words in one.failure.message:
            return {"rank": one.rank}
    return False


def joined(seen):
    """Results side by side instead of added up: N times as wide as they should be."""
    for one in seen:
        wide, right = one.shape, one.want_shape
        if len(wide) == len(right) == 2 and wide != right and wide in (
            (right[0], right[1] * len(seen)), (right[0] * len(seen), right[1])):  # fmt: skip
            return {"rank": one.rank, "wide": list(wide), "shape": list(right)}
    return False
