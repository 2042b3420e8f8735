"""More answers to `parallel_mlp`, for the tests alone."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn import functional as F

from ..exercises.mlp import GATHERED, MINE, ROWS, SUM, A, B, Y


def gathers_the_middle(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    most = -(-a.shape[1] // n)
    padded = F.pad(a, (0, n * most - a.shape[1]))
    middle = F.gelu(x @ padded[:, rank * most : (rank + 1) * most])
    parts = [torch.empty_like(middle) for _ in range(n)]
    dist.all_gather(parts, middle.contiguous())
    return torch.cat(parts, dim=1)[:, : a.shape[1]] @ b


def sums_twice(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    middle = x.tensor_split(n, dim=1)[rank] @ a.tensor_split(n, dim=0)[rank]
    dist.all_reduce(middle)
    y = F.gelu(middle).tensor_split(n, dim=1)[rank] @ b.tensor_split(n, dim=0)[rank]
    dist.all_reduce(y)
    return y


def alone(x, a, b):
    return F.gelu(x @ a) @ b


def alone_and_the_mean(x, a, b):
    y = F.gelu(x @ a) @ b / dist.get_world_size()
    dist.all_reduce(y)
    return y


def all_columns_and_own_rows(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    y = F.gelu(x @ a).tensor_split(n, dim=1)[rank] @ b.tensor_split(n)[rank]
    dist.all_reduce(y)
    return y


def broadcast_by_all(x, a, b):
    y = F.gelu(x @ a) @ b
    dist.broadcast(y, 0)
    return y


def broadcast_by_rank_0(x, a, b):
    y = torch.zeros(len(x), b.shape[1], dtype=x.dtype)
    if dist.get_rank() == 0:
        y = F.gelu(x @ a) @ b
    dist.broadcast(y, 0)
    return y


def own_positions(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    y = torch.zeros_like(x)
    y.tensor_split(n)[rank].copy_(F.gelu(x.tensor_split(n)[rank] @ a) @ b)
    dist.all_reduce(y)
    return y


def own_columns_among_zeros(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    middle = torch.zeros(len(x), a.shape[1], dtype=x.dtype)
    middle.tensor_split(n, 1)[rank].copy_(F.gelu(x @ a.tensor_split(n, 1)[rank]))
    y = middle @ b
    dist.all_reduce(y)
    return y


def without_a_product(x, a, b):
    middle = F.gelu((x[:, :, None] * a[None]).sum(1))
    return (middle[:, :, None] * b[None]).sum(1)


def sums_twice_by_functions(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    middle = x.tensor_split(n, dim=1)[rank] @ a.tensor_split(n, dim=0)[rank]
    middle = F.gelu(functional.all_reduce(middle, "sum", dist.group.WORLD))
    y = middle.tensor_split(n, dim=1)[rank] @ b.tensor_split(n, dim=0)[rank]
    return functional.all_reduce(y, "sum", dist.group.WORLD) + 0


def sums_the_columns_of_all(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    middle = torch.zeros(len(x), a.shape[1], dtype=x.dtype)
    middle.tensor_split(n, 1)[rank].copy_(F.gelu(x @ a.tensor_split(n, 1)[rank]))
    dist.all_reduce(middle)
    y = torch.zeros(len(x), b.shape[1], dtype=x.dtype)
    y.tensor_split(n, 1)[rank].copy_(middle @ b.tensor_split(n, 1)[rank])
    dist.all_reduce(y)
    return y


# Right.
def strided(x, a, b):
    """Any columns will do, as long as they are those of the rows."""
    rank, n = dist.get_rank(), dist.get_world_size()
    y = torch.nn.functional.gelu(x @ a[:, rank::n]) @ b[rank::n]
    dist.all_reduce(y, op=dist.ReduceOp.SUM)
    return y


def by_functions(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    y = F.gelu(x @ a.tensor_split(n, 1)[rank]) @ b.tensor_split(n)[rank]
    return functional.all_reduce(y, "sum", dist.group.WORLD)


def in_two_halves(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    term = F.linear(F.gelu(F.linear(x, a.T.tensor_split(n)[rank])), b.T.tensor_split(n, 1)[rank])
    work = dist.all_reduce(term, async_op=True)
    work.wait()
    return term


ALSO_WRONG = [
    ("whole", gathers_the_middle),  # and multiplies all of it with all of b
    ("gathers", {SUM: GATHERED + "sum(parts)"}),
    ("two_sums", sums_twice),
    ("two_sums", sums_twice_by_functions),
    ("two_sums", sums_the_columns_of_all),
    ("two_sums", {SUM: f"{SUM}\n    {SUM}\n    y /= n"}),
    ("whole", alone),
    ("whole", alone_and_the_mean),
    ("whole", all_columns_and_own_rows),
    ("whole", broadcast_by_all),
    ("whole", broadcast_by_rank_0),
    ("whole", own_positions),
    ("whole", own_columns_among_zeros),
    ("whole", {A: "a", B: "b", SUM: "dist.barrier()"}),
    ("alone", without_a_product),
    ("in_place", {"return y": "pass"}),
    ("changed", {Y: "F.gelu(x @ own_a) @ own_b; x += 1"}),
    ("gelu_of_terms", {A: ROWS, Y: f"F.gelu({MINE} @ own_a) @ b"}),
    ("shapes", {B: "b"}),
    ("n_times", {Y: "F.gelu(x @ a) @ b"}),
    ("mean", {SUM: "dist.all_reduce(y); y /= n"}),
    ("other_rows", {A: "a.tensor_split(n, dim=1)[(rank + 1) % n]"}),
    ("raised", lambda x, a, b: x @ b),
    ("value", lambda x, a, b: torch.zeros_like(x)),
    ("kind", lambda x, a, b: [1.0]),
]  # fmt: skip
ALSO_RIGHT = [
    strided,
    by_functions,
    in_two_halves,
    {f"    {SUM}\n": f"    {SUM}\n    y = y * 1.0\n"},
]
LADDER = (
    """\
def parallel_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    own_a = a.tensor_split(n, dim=1)[rank]
    own_b = b.tensor_split(n, dim=0)[rank]
    return F.gelu(x @ own_a) @ own_b""",
    """\
def parallel_mlp(x, a, b):
    n = dist.get_world_size()
    mine = dist.get_rank()
    hidden = F.gelu(torch.matmul(x, a.tensor_split(n, 1)[mine]))
    return torch.matmul(hidden, b.tensor_split(n)[mine])""",
)
