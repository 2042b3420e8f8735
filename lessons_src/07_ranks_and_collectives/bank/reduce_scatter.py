"""More answers to `ring_reduce_scatter`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.scratch.ring import exchange

from ..exercises.reduce_scatter import HALVES, ring_reduce_scatter


def another(out, into):
    """The solution with other chunks."""
    return {HALVES: f"{out}, {into}"}


def half_written_out(x):
    n, r = dist.get_world_size(), dist.get_rank()
    parts = torch.tensor_split(x, n)
    i = r
    for _ in range(n - 1):
        j = (i + n - 1) % n
        incoming = torch.zeros_like(parts[j])
        exchange(parts[i], incoming)
        parts[j].add_(incoming)
        i = j
    return x


def half_by_ceiling(x):
    """Chunks of ⌈size/n⌉ with a short or empty tail; changes x and returns nothing."""
    rank, n = dist.get_rank(), dist.get_world_size()
    per = -(-x.numel() // n)
    chunks = [x[k * per : (k + 1) * per] for k in range(n)]
    for s in range(n - 1):
        into = chunks[(rank - s - 1) % n]
        arrived = torch.empty_like(into)
        exchange(chunks[(rank - s) % n], arrived)
        into[:] = into + arrived


def cut_at(bounds):
    """The solution with chunks that end at other places."""
    return {"x.tensor_split(n)": f"[x[{bounds.format('i')} : {bounds.format('(i + 1)')}]"
                                 " for i in range(n)]"}  # fmt: skip


NEW = {
    "x.tensor_split(n)": "list(x.tensor_split(n))",
    "chunks[into].add_(arrived)": "chunks[into] = chunks[into] + arrived",
}
ALSO_WRONG = [
    ("value", another("s", "s + 1")),
    ("new_object", lambda x: ring_reduce_scatter(x.clone())),
    ("new_object", NEW),
    ("extra_step", {"range(n - 1)": "range(n - (n == 1))"}),
    # rank 0 finishes chunk 0
    ("other_owner", another("(rank - s - 1) % n", "(rank - s - 2) % n")),
]
ALSO_RIGHT = [
    half_written_out,
    half_by_ceiling,
    cut_at("{} * len(x) // n"),
    # the remainder in the last chunk
    {"x.tensor_split(n)": "x.tensor_split([len(x) // n * k for k in range(1, n)])"},
    # larger chunks last
    cut_at("{0} * (len(x) // n) + max(0, {0} - n + len(x) % n)"),
]

# The same mistake twice, written differently: the chunk that arrives is one too far to the right.
RING = """\
def ring_reduce_scatter(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        out, into = {numbers}
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        chunks[into].add_(arrived)
    return x"""
LADDER = (
    RING.format(numbers="(rank - s) % n, (rank - s + 1) % n"),
    RING.format(numbers="(rank - s) % n, (rank + 1 - s) % n"),
)
