"""Exercise 17.4: under stage 3 every rank has a share; rank 0 collects whole weights.

Number k of a tensor is painted k, from 1 on, so that a result shows its order and its padding,
which is 0. A case's tensor is all weights end to end, and every rank makes its share from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine

Shapes = dict[str, tuple[int, ...]]
LAYERS: tuple[Shapes, ...] = (
    {"bias": (6,)},
    {"weight": (2, 5), "bias": (3,)},
    {"weight": (3, 5), "bias": (4,), "scale": (2,)},
)
# By the sum of elements, which tells a rank which case it is in.
BY_SIZE = {sum(torch.Size(s).numel() for s in shapes.values()): shapes for shapes in LAYERS}
PLAN = ((1, LAYERS[:1]), (3, LAYERS[1:]), (4, LAYERS[2:]))


class Odd(Exception):
    """What a rank handed back is no answer; the text is the mistake's key and what it was."""


def reference(mine: Mapping[str, torch.Tensor], shapes: Shapes) -> dict[str, torch.Tensor]:
    """Gather every tensor in the same order on all ranks; rank 0 cuts the padding off and keeps."""
    whole = {}
    for name, shape in shapes.items():
        shares = [torch.empty_like(mine[name]) for _ in range(dist.get_world_size())]
        dist.all_gather(shares, mine[name])
        if dist.get_rank() == 0:
            whole[name] = torch.cat(shares)[: torch.Size(shape).numel()].view(shape)
    return whole


def check(student: Callable[..., Any]) -> Passed:
    """One rank, then three with shares that need padding, then four with tensors below N."""
    plan = [(n, [_case(shapes) for shapes in layers]) for n, layers in PLAN]
    rounds = examine(functools.partial(_on_rank, student), plan, explain)
    return Passed((("cases with padding", len(rounds) - 1, len(rounds) - 1, ""),))


def painted(shapes: Shapes) -> dict[str, torch.Tensor]:
    """Whole tensors: 1, 2, 3, … in each."""
    sizes = {name: torch.Size(shape) for name, shape in shapes.items()}
    return {name: torch.arange(1.0, s.numel() + 1).view(s) for name, s in sizes.items()}


def share(whole: torch.Tensor, rank: int, n: int) -> torch.Tensor:
    """A rank's ⌈n/N⌉ numbers of a tensor, filled up with zeros: DeepSpeed's `ds_tensor`."""
    flat, size = whole.flatten(), -(-whole.numel() // n)
    mine = flat[rank * size : (rank + 1) * size]
    return torch.cat([mine, torch.zeros(size - len(mine))])


def _case(shapes: Shapes) -> Case:
    whole = torch.cat([tensor.flatten() for tensor in painted(shapes).values()])
    said = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    return Case(said, lambda rank, n: whole, lambda rank, n: whole if rank == 0 else whole[:0])


def _on_rank(student: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    rank, n, shapes = dist.get_rank(), dist.get_world_size(), BY_SIZE[len(x)]
    mine = {name: share(tensor, rank, n) for name, tensor in painted(shapes).items()}
    got = student(mine, dict(shapes))
    if rank > 0:
        if got is None or got == {}:
            return x[:0]
        raise Odd(f"kept {len(got) if isinstance(got, Mapping) else 1}")
    if not isinstance(got, Mapping):
        raise Odd("nothing" if got is None else f"kind {type(got).__name__}")
    if set(got) != set(shapes):
        raise Odd(f"names {', '.join(map(str, got)) or 'none'}")
    for name, tensor in got.items():
        if not isinstance(tensor, torch.Tensor):
            raise Odd(f"tensor {name} {type(tensor).__name__}")
    for name, tensor in got.items():
        if tensor.shape != torch.Size(shapes[name]):
            raise Odd(f"shape {name} {tuple(tensor.shape)} {_few(tensor)}")
    return torch.cat([got[name].flatten() for name in shapes])


def _few(tensor: torch.Tensor) -> str:
    return ", ".join(f"{value:g}" for value in tensor.flatten().tolist()[:16])


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by what rank 0 holds, and by who was missing in a collective."""
    shapes = BY_SIZE[len(round_.case.make(0, round_.n))]
    facts: dict[str, Any] = {"n": round_.n}
    odd = {rank: f.message for rank, f in round_.failures if f.error == "Odd"}
    if 0 in odd:
        return _rank_0(odd[0], shapes, round_, facts)
    if any(f.mismatch for _, f in round_.failures):
        return Wrong("uneven", round_.label, **facts)
    waiting = [rank for rank, f in round_.failures if f.waited_in or f.peer_gone]
    others = [seen.rank for seen in round_.ranks if seen.failure is None]
    if waiting and others:
        return Wrong("absent", round_.label, rank=waiting[0], gone=others[0], **facts)
    own = [f for rank, f in round_.failures if rank == 0 and "is invalid for input of size" in
           f.message]  # fmt: skip
    if own:
        return Wrong("padding_in_shape", round_.label, said=own[0].message, **facts)
    if odd:
        rank = min(odd)
        return Wrong("everybody", round_.label, rank=rank, others=round_.n - 1, **facts)
    values = round_.ranks[0].values
    if not round_.failures and values:
        return _values(values, round_, facts)
    return None


def _rank_0(said: str, shapes: Shapes, round_: Round, facts: dict[str, Any]) -> Wrong:
    key, _, rest = said.partition(" ")
    if key == "nothing":
        return Wrong("nobody", round_.label, **facts)
    if key in ("names", "kind", "tensor"):
        return Wrong({"kind": "no_dict"}.get(key, key), round_.label, got=rest, **facts)
    name, _, rest = rest.partition(" ")
    size = torch.Size(shapes[name]).numel()
    values = rest[rest.index(")") + 1 :].strip()
    count = len(values.split(", ")) if values else 0
    facts |= {"name": name, "got": values, "size": size, "count": count}
    facts |= {"want": list(shapes[name])}
    padded = -(-size // round_.n) * round_.n
    if round_.n > 1 and count == -(-size // round_.n):
        return Wrong("own", round_.label, **facts)
    if count == padded > size:
        return Wrong("padding", round_.label, **facts)
    return Wrong("flat" if count == size else "wrong_size", round_.label, **facts)


def _values(values: list[float], round_: Round, facts: dict[str, Any]) -> Wrong | None:
    want = round_.ranks[0].want
    first = next((i for i, pair in enumerate(zip(values, want, strict=False))
                  if pair[0] != pair[1]), 0)  # fmt: skip
    facts |= {"got": f"{values[first]:g}", "want": f"{want[first]:g}"}
    facts |= {"values": ", ".join(f"{value:g}" for value in values[:12])}
    if 0 in values:
        return Wrong("padding_inside", round_.label, **facts)
    if sorted(values) == sorted(want):
        return Wrong("order", round_.label, **facts)
    return Wrong("not_gathered", round_.label, **facts)
