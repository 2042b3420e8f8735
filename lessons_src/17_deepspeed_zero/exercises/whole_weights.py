"""Exercise 17.4: under stage 3 every rank has a share; rank 0 collects whole weights.

The numbers of a tensor are 1, 2, 3, …, so that a result shows their order, and padding as 0. Only a
`fresh` tensor is all zeros, as many a bias is at the start: padding has no value of its own.
"""

import re
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
        whole = {name: torch.arange(1.0, size + 1) for name, size in sizes.items()}
        whole |= {name: torch.zeros(sizes[name]) for name in {"fresh"} & {*sizes}}
        mine = {name: share(flat, rank, n) for name, flat in whole.items()}
        return mine, dict(shapes)

    return ranks, ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items()), make


def share(flat, rank, n):
    """A rank's ⌈n/N⌉ numbers of a tensor, padded with zeros: DeepSpeed's `ds_tensor`."""
    size = -(-len(flat) // n)
    mine = flat[rank * size : (rank + 1) * size]
    return torch.cat([mine, torch.zeros(size - len(mine))])


def read(got, rank, n, shapes):
    """All numbers of rank 0, one after another; of another rank, how many tensors it kept whole."""
    if rank > 0:
        return _kept(got, rank, shapes)
    if not isinstance(got, Mapping):
        raise Wrong("nobody" if got is None else "no_dict", got=type(got).__name__)
    if set(got) != set(shapes):
        raise Wrong("names", got=", ".join(map(str, got)) or "none")
    for name, tensor in got.items():
        if not isinstance(tensor, torch.Tensor):
            raise Wrong("tensor", got=f"{name} {type(tensor).__name__}")
    for name, tensor in got.items():
        if tensor.shape != torch.Size(shapes[name]):
            raise _shape(name, tensor, shapes[name], n)
    return torch.cat([got[name].flatten() for name in shapes])


def _kept(got, rank, shapes):
    """How many whole tensors a rank kept that needs none; anything else that it returned is odd."""
    if got is None or (isinstance(got, Mapping) and not got):
        return 0
    tensors = got if isinstance(got, Mapping) else {}
    sizes = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
    counts = {k: x.numel() for k, x in tensors.items() if isinstance(x, torch.Tensor)}
    if whole := sum(counts.get(name, 0) >= size for name, size in sizes.items()):
        return whole
    raise Wrong("left_over", rank=rank, got=f"a {type(got).__name__}")


def _shape(name, tensor, shape, n):
    """Which mistake a tensor of another shape shows, by its numbers and their count."""
    values = tensor.flatten().tolist()
    size, count = torch.Size(shape).numel(), len(values)
    each = -(-size // n)
    key = "wrong_size"
    if count == size:
        key = "flat" if tensor.dim() == 1 else "other_shape"
    elif n > 1 and values == [float(k + 1) for k in range(each)]:
        key = "own"
    elif count == each * n > size and 0 in values:
        key = "padding"
    got = ", ".join(f"{value:g}" for value in values[:16])
    has = list(tensor.shape)
    return Wrong(key, name=name, got=got, size=size, count=count, want=list(shape), has=has)


def absent(seen):
    """A rank waits, and another one has returned."""
    waiting = [s.rank for s in seen if s.failure and (s.failure.waited_in or s.failure.peer_gone)]
    gone = [one.rank for one in seen if one.failure is None]
    return bool(waiting and gone) and {"rank": waiting[0], "gone": gone[0]}


def no_view(longer):
    """Recognises that rank 0 had too many (or too few) numbers for the shape that it asked for."""

    def when(seen):
        said = seen[0].failure.message if seen[0].failure else ""
        found = re.search(r"shape '\[([\d, ]+)\]' is invalid for input of size (\d+)", said)
        if not found:
            return False
        size, count = torch.Size(map(int, found[1].split(","))).numel(), int(found[2])
        return (count > size) == longer and {"said": said}

    return when


def uneven(seen):
    """All called one collective, with tensors of one dtype and different lengths."""
    what = r"Rank {} is running collective: .*?OpType=(\w+), TensorShape=(\[.*?\]), .*?Dtypes=(\w+)"
    failures = [(one.rank, one.failure.message) for one in seen if one.failure]
    found = [re.search(what.format(rank), message) for rank, message in failures]
    calls = {(call[1], call[3], call[2]) for call in found if call}
    return len(calls) > 1 and len({call[:2] for call in calls}) == 1


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
        case(4, weight=(3, 5), bias=(4,), scale=(2,), fresh=(3,)),
    ],
    same=0,
    mistakes=[
        Mistake("uneven", cuts_before, when=uneven),
        Mistake("absent", {"in shapes.items()": "in () if dist.get_rank() else shapes.items()"},
                when=absent, hangs=True),
        Mistake("padding_in_shape", {**EVERYWHERE, "[:n]": ""}, when=no_view(True)),
        Mistake("short_in_shape", {"torch.cat(shares)[:n]": "mine[name]"}, when=no_view(False)),
        Mistake("everybody", EVERYWHERE, when=everybody),
        Mistake("padding_inside", {"cat(shares)[:n]": "cat(shares[::-1])[-n:]"},
                when=lambda got, want: 0 in got[0] and 0 not in want[0]),
        Mistake("order", {"view(shape)": "flip(0).view(shape)"},
                when=lambda got, want: sorted(got[0]) == sorted(want[0])),
        Mistake("not_gathered", {"torch.cat(shares)": "sum(shares).repeat(len(shares))"},
                when=lambda got: True),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
