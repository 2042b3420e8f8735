"""Exercise 17.4: under stage 3 every rank has a share; rank 0 collects whole weights.

The numbers of a tensor are 1, 2, 3, …, so that a result shows their order, and padding as 0.
"""

from collections.abc import Mapping

import torch
import torch.distributed as dist

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

EVERYWHERE = {"if dist.get_rank() == 0": "if True"}  # words of the solution

whole_weights = solution("whole_weights", globals())


def case(ranks, **shapes):
    """Each rank is given its shares and the shapes."""

    def make(rank, n):
        sizes = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
        mine = {name: share(torch.arange(1.0, s + 1), rank, n) for name, s in sizes.items()}
        return mine, dict(shapes)

    return ranks, ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items()), make


def share(flat, rank, n):
    """A rank's ⌈n/N⌉ numbers of a tensor, padded with zeros: DeepSpeed's `ds_tensor`."""
    size = -(-len(flat) // n)
    mine = flat[rank * size : (rank + 1) * size]
    return torch.cat([mine, torch.zeros(size - len(mine))])


def read(got, rank, n, shapes):
    """All numbers of rank 0, one after another; for another rank, how many tensors it kept."""
    if rank > 0:
        return len(got) if isinstance(got, Mapping) else int(got is not None)
    if not isinstance(got, Mapping):
        raise Wrong("nobody" if got is None else "no_dict", got=type(got).__name__)
    if set(got) != set(shapes):
        raise Wrong("names", got=", ".join(map(str, got)) or "none")
    for name, tensor in got.items():
        if not isinstance(tensor, torch.Tensor):
            raise Wrong("tensor", got=f"{name} {type(tensor).__name__}")
    for name, tensor in got.items():
        if tensor.shape != torch.Size(shapes[name]):
            raise _shape(name, tensor.flatten().tolist(), shapes[name], n)
    return torch.cat([got[name].flatten() for name in shapes])


def _shape(name, values, shape, n):
    """Which mistake a tensor of another shape shows, by the count of its numbers."""
    size, count = torch.Size(shape).numel(), len(values)
    each = -(-size // n)
    key = "flat" if count == size else "wrong_size"
    if n > 1 and count == each:
        key = "own"
    elif count == each * n > size:
        key = "padding"
    got = ", ".join(f"{value:g}" for value in values[:16])
    return Wrong(key, name=name, got=got, size=size, count=count, want=list(shape))


def absent(seen):
    """A rank waits, and another one has returned."""
    waiting = [s.rank for s in seen if s.failure and (s.failure.waited_in or s.failure.peer_gone)]
    gone = [one.rank for one in seen if one.failure is None]
    return bool(waiting and gone) and {"rank": waiting[0], "gone": gone[0]}


def no_view(seen):
    """Rank 0 could not give its numbers the shape of the tensor."""
    said = seen[0].failure.message if seen[0].failure else ""
    return "is invalid for input of size" in said and {"said": said}


def everybody(seen):
    kept = [one.rank for one in seen[1:] if one.got]
    return bool(kept) and {"rank": kept[0], "others": len(seen) - 1}


def cuts_before(mine, shapes):
    rank, sizes = dist.get_rank(), {name: torch.Size(shapes[name]).numel() for name in mine}
    mine = {name: x[: max(0, sizes[name] - rank * len(x))] for name, x in mine.items()}
    return whole_weights(mine, shapes)


def facts(got, want):
    """The first number of rank 0 that is wrong, and all of them."""
    pairs = zip(got[0], want[0], strict=True)
    mine, right = next((pair for pair in pairs if pair[0] != pair[1]), (0, 0))
    return {"got": words(mine), "want": words(right), "values": words(got[0][:12])}


def passed(seen):
    last = seen[-1][0]
    return Passed((("numbers on rank 0 of 4", len(last.values), len(last.want), ""),))


EXERCISE = RankAnswer(
    whole_weights,
    read=read,
    cases=[
        case(1, bias=(6,)),
        case(3, weight=(2, 5), bias=(3,)),
        case(3, weight=(3, 5), norm=(4,), scale=(2,)),  # another model: its names are not bias's
        case(4, weight=(3, 5), bias=(4,), scale=(2,)),
    ],
    same=0,
    mistakes=[
        Mistake("uneven", cuts_before,
                when=lambda seen: any(one.failure and one.failure.mismatch for one in seen)),
        Mistake("absent", {"in shapes.items()": "in () if dist.get_rank() else shapes.items()"},
                when=absent, hangs=True),
        Mistake("padding_in_shape", {**EVERYWHERE, "[:n]": ""}, when=no_view),
        Mistake("everybody", EVERYWHERE, when=everybody),
        Mistake("padding_inside", {"cat(shares)[:n]": "cat(shares[::-1])[-n:]"},
                when=lambda got: 0 in got[0]),
        Mistake("order", {"view(shape)": "flip(0).view(shape)"},
                when=lambda got, want: sorted(got[0]) == sorted(want[0])),
        Mistake("not_gathered", {"torch.cat(shares)": "sum(shares).repeat(len(shares))"},
                when=lambda got: True),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
