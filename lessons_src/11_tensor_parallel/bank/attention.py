"""More answers to `parallel_attention`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.attention import HEADS, OUT, SUM, attend
from ..exercises.mlp import GATHERED


def gathers_the_heads(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = [third.tensor_split(n, dim=1)[rank] for third in qkv.chunk(3, dim=1)]
    y = attend(*(x @ columns for columns in own), heads // n)
    parts = [torch.empty_like(y) for _ in range(n)]
    dist.all_gather(parts, y.contiguous())
    return torch.cat(parts, dim=1) @ out


def sums_the_projections(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    all_of_them = x.tensor_split(n, dim=1)[rank] @ qkv.tensor_split(n)[rank]
    dist.all_reduce(all_of_them)
    own = [third.tensor_split(n, dim=1)[rank] for third in all_of_them.chunk(3, dim=1)]
    y = attend(*own, heads // n) @ out.tensor_split(n)[rank]
    dist.all_reduce(y)
    return y


def alone(x, qkv, out, heads):
    return attend(*(x @ qkv).chunk(3, dim=1), heads) @ out


def projects_all(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = [third.tensor_split(n, dim=1)[rank] for third in (x @ qkv).chunk(3, dim=1)]
    y = attend(*own, heads // n) @ out.tensor_split(n)[rank]
    dist.all_reduce(y)
    return y


def broadcast_by_all(x, qkv, out, heads):
    y = attend(*(x @ qkv).chunk(3, dim=1), heads) @ out
    dist.broadcast(y, 0)
    return y


def own_heads_among_zeros(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = [third.tensor_split(n, dim=1)[rank] for third in qkv.chunk(3, dim=1)]
    y = torch.zeros(len(x), len(out), dtype=x.dtype)
    y.tensor_split(n, 1)[rank].copy_(attend(*(x @ columns for columns in own), heads // n))
    y = y @ out
    dist.all_reduce(y)
    return y


def without_a_product(x, qkv, out, heads):
    y = (x[:, :, None] * qkv[None]).sum(1)
    return (attend(*y.chunk(3, dim=1), heads)[:, :, None] * out[None]).sum(1)


# Right.
def by_slices(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    inner = len(out)
    low, high = rank * inner // n, (rank + 1) * inner // n
    q, k, v = (x @ qkv[:, k * inner + low : k * inner + high] for k in range(3))
    y = attend(q, k, v, heads // n) @ out[low:high]
    dist.all_reduce(y)
    return y


def dealt(x, qkv, out, heads):
    """Every nth head, of the rows as well."""
    rank, n = dist.get_rank(), dist.get_world_size()
    every = qkv.unflatten(1, (3, heads, -1))[:, :, rank::n]
    q, k, v = (x @ every[:, k].flatten(1) for k in range(3))
    y = attend(q, k, v, heads // n) @ out.unflatten(0, (heads, -1))[rank::n].flatten(0, 1)
    dist.all_reduce(y)
    return y


def head_after_head(x, qkv, out, heads):
    rank, n = dist.get_rank(), dist.get_world_size()
    d, y = len(out) // heads, torch.zeros_like(x)
    for head in range(rank * heads // n, (rank + 1) * heads // n):
        part = slice(head * d, (head + 1) * d)
        y += attend(*(x @ third[:, part] for third in qkv.chunk(3, 1)), 1) @ out[part]
    dist.all_reduce(y)
    return y


ALSO_WRONG = [
    ("gathers", gathers_the_heads),
    ("gathers", {SUM: GATHERED + "sum(parts)"}),
    ("two_sums", sums_the_projections),
    ("whole", alone),
    ("whole", projects_all),
    ("whole", broadcast_by_all),
    ("whole", own_heads_among_zeros),
    ("alone", without_a_product),
    ("in_place", {"return y": "pass"}),
    ("changed", {SUM: f"{SUM}; qkv.zero_()"}),
    ("mean", {SUM: "dist.all_reduce(y); y /= n"}),
    ("shapes", {OUT: "out"}),
    ("one_head", {HEADS: "heads // heads"}),
    ("value", lambda x, qkv, out, heads: torch.zeros_like(x)),
    ("raised", lambda x, qkv, out, heads: x @ out),
]  # fmt: skip
ALSO_RIGHT = [by_slices, dealt, head_after_head]
