"""What the checks of lesson 11 share: a call that is watched, and the books of its messages."""

import re

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from dtlib.learn.explanations import not_waited, number
from dtlib.learn.readers import told_apart
from dtlib.learn.reports import close
from dtlib.learn.verdicts import Wrong
from dtlib.learn.wire import WireLog, elements_sent

SAME = 1e-6  # the checks compute in fp64
# Of the operations of a rank's part: a right answer needs no more, and one that multiplies a rank's
# own columns, padded with zeros, with all rows of the second matrix does at least 1.09 of them.
SLACK = 1.05


def drawn(seed, *sizes):
    """A matrix with one digit behind the point, the same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*sizes, generator=generator, dtype=torch.float64) * 10).round() / 10


class Operations(TorchDispatchMode):
    """Count the FLOPs that this rank does: of a DTensor those of its part, not of the whole.

    `FlopCounterMode` counts a DTensor by its shape, which is that of the whole tensor.
    """

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented  # comes back as an operation on the rank's own part
        out = func(*args, **(kwargs or {}))
        count = flop_registry.get(func.overloadpacket)
        if count and not (out.is_meta or isinstance(out, FakeTensor)):  # DTensor asks for shapes
            self.total += count(*args, **(kwargs or {}), out_val=out)
        return out


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
    with WireLog() as log, Operations() as operations:
        found = answer(*given)
    if not isinstance(found, torch.Tensor) or not close(found, right, SAME):
        return found
    rank, n = dist.get_rank(), dist.get_world_size()
    for k, (was, now) in enumerate(zip(before, given, strict=True)):
        if isinstance(now, torch.Tensor) and not torch.equal(was, now):
            raise Wrong("changed", rank=rank, place=k + 1)
    if n > 1 and not log.messages and not operations.total > SLACK * share:
        raise Wrong("alone", rank=rank, n=n)
    # Who sends too much is told that first, by `too_much`.
    little = elements_sent(log.messages, n) <= all_reduced(right.numel(), n)
    if n > 1 and little and operations.total > SLACK * share:
        raise Wrong("whole", rank=rank, n=n, did=operations.total, share=int(share))
    return found


def all_reduced(elements, n):
    """Elements that a rank sends in one all-reduce of so many on a ring, with room for rounding."""
    return 2 * (n - 1) / n * elements + 1e-9


def first_wrong(got, want):
    """The first rank, and the first place in its result, with another number than is right."""
    for rank, (mine, right) in enumerate(zip(got, want, strict=True)):
        for k, (x, y) in enumerate(zip(mine, right, strict=False)):
            if not abs(x - y) <= SAME * max(1, abs(y)):
                return rank, k
    return 0, 0


def facts(got, want):
    """The first wrong number: its rank, what another rank has there, and what is right."""
    if not all(isinstance(values, list) and values for values in (*got, *want)):
        return {"rank": 0, "other": 1, "got": "other numbers", "want": "another number",
                "others": "other numbers"}  # fmt: skip
    rank, k = first_wrong(got, want)
    other = (rank + 1) % len(got)
    mine, right = number(got[rank][k]), number(want[rank][k])
    if mine == right:
        mine, right = told_apart(got[rank][k], want[rank][k])
    return {"rank": rank, "other": other, "got": mine, "want": right,
            "others": number(got[other][k])}  # fmt: skip


def too_much(seen, enough, n):
    """A sum that nobody waited for, or more elements than one all-reduce of the result."""
    started = not_waited(seen)
    if started:
        return Wrong("never_waited", **started)
    for one in seen:
        sent = elements_sent(one.messages, n)
        if sent > all_reduced(enough, n):
            calls = one.collectives
            key = "two_sums" if calls == ["all_reduce", "all_reduce"] else "gathers"
            words = {"sent": number(sent), "enough": number(all_reduced(enough, n))}
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


def rows_of_all(seen, x):
    """Some columns of the middle, and too many rows of the second matrix: `2x2 and 6x4`."""
    rank, rows, columns, more, right = misfit(seen) or (0, 0, 0, 0, 0)
    return (
        columns < more
        and more != x[0].shape[1]
        and {"rank": rank, "two": f"{rows}x{columns} and {more}x{right}"}
    )


def part_of_x(seen, x):
    """Some columns of x, and all rows of the first matrix: `2x2 and 4x2`."""
    rank, rows, columns, more, right = misfit(seen) or (0, 0, 0, 0, 0)
    return (
        columns < more == x[0].shape[1]
        and {"rank": rank, "two": f"{rows}x{columns} and {more}x{right}"}
    )  # fmt: skip


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
