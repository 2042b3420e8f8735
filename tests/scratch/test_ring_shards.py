"""Reduce-scatter, all-gather and tree all-reduce by hand: same sums, bytes by formula."""

import itertools

import pytest
import torch
import torch.distributed as dist

from dtlib.learn.wire import WireLog
from dtlib.ranks.launcher import launch
from dtlib.scratch import ring
from tests.scratch_cases import ring_wire_elements, shard_elements

SIZES = (1001, 12, 7, 2, 1, 0)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8,
          torch.complex64, torch.bool)  # fmt: skip


def all_but_chunk(after):
    """A rank sends every chunk but the one `after` its own."""
    return lambda size, n, rank: size - shard_elements(size, n, rank + after) if n > 1 else 0


def up_and_to_each_child(size, n, rank):
    """A child of a rank in the tree: rank + 2^k for every 2^k below the rank's lowest set bit."""
    steps = itertools.takewhile(lambda step: step < n and not rank & step, (1, 2, 4, 8))
    return size * (sum(rank + step < n for step in steps) + (rank > 0))


CALLS = {
    "reduce_scatter": (ring.reduce_scatter, all_but_chunk(0)),
    "all_gather": (ring.all_gather, all_but_chunk(1)),
    "tree_all_reduce": (ring.tree_all_reduce, up_and_to_each_child),
    "ring_all_reduce": (ring.ring_all_reduce, ring_wire_elements),
}


def drawn(size, rank):
    return torch.randn(size, generator=torch.Generator().manual_seed(rank))


def one_rank():
    rank = dist.get_rank()
    logs, results = {}, {}
    for name, (call, _) in CALLS.items():
        for size in SIZES:
            with WireLog(forbid_collectives=True) as log:
                results[name, size] = call(drawn(size, rank)).clone()
            logs[name, size] = log.bytes_sent
    whole = {dtype: torch.arange(7).to(dtype) for dtype in DTYPES}
    for dtype, x in whole.items():
        results["dtype", dtype] = [
            call(x.clone()).clone() for call in (ring.reduce_scatter, ring.tree_all_reduce)
        ]
    return results, logs


@pytest.fixture(scope="module", params=[1, 3, 4, 5])
def world(request):
    return request.param, launch(one_rank, ranks=request.param, timeout=20, show=False)


def by_rank(world, key):
    return [results[key] for results, _ in world[1]]


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter_leaves_each_rank_its_own_chunk_of_the_sum(world, size):
    n = world[0]
    want = sum(drawn(size, rank) for rank in range(n))
    got = torch.cat(by_rank(world, ("reduce_scatter", size)))
    # n - 1 additions of numbers below 5 in either order: 2 (n - 1) half-ulps of 4 n.
    torch.testing.assert_close(got, want, rtol=0, atol=2 * n * n * 2.4e-7)
    lengths = [len(chunk) for chunk in by_rank(world, ("reduce_scatter", size))]
    assert lengths == [shard_elements(size, n, rank) for rank in range(n)]


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_copies_every_chunk_and_changes_no_bit(world, size):
    n = world[0]
    want = torch.cat([drawn(size, rank).tensor_split(n)[rank] for rank in range(n)])
    assert all(torch.equal(got, want) for got in by_rank(world, ("all_gather", size)))


@pytest.mark.parametrize("size", SIZES)
def test_tree_sums_and_every_rank_ends_with_the_same_bits(world, size):
    n = world[0]
    want = sum(drawn(size, rank) for rank in range(n))
    got = by_rank(world, ("tree_all_reduce", size))
    torch.testing.assert_close(got[0], want, rtol=0, atol=2 * n * n * 2.4e-7)
    assert len({x.numpy().tobytes() for x in got}) == 1


@pytest.mark.parametrize("name", CALLS)
def test_bytes_on_the_wire(world, name):
    n, ranks = world
    for size in SIZES:
        for rank, (_, logs) in enumerate(ranks):
            sent = logs[name, size]
            assert sent == 4 * CALLS[name][1](size, n, rank)
            if name in ("reduce_scatter", "all_gather"):
                assert sent <= 4 * (n - 1) * -(-size // n)
        if name == "tree_all_reduce":  # all but rank 0 send up, all but rank 0 are sent to
            assert sum(logs[name, size] for _, logs in ranks) == 4 * 2 * (n - 1) * size


def test_every_dtype_is_summed_as_that_dtype(world):
    n = world[0]
    for dtype in DTYPES:
        # Sums of up to 5 small integers: exact in every one of these types; or, for bool.
        want = (torch.arange(7) * n).to(dtype)
        scattered = torch.cat([pair[0] for pair in by_rank(world, ("dtype", dtype))])
        assert scattered.dtype == dtype
        assert torch.equal(scattered, want)
        assert all(torch.equal(pair[1], want) for pair in by_rank(world, ("dtype", dtype)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
def test_hops_of_the_tree_fit_together_without_any_process(n):
    up = [ring.reduce_hops(rank, n) for rank in range(n)]
    down = [ring.broadcast_hops(rank, n) for rank in range(n)]
    for hops, arrives in ((up, "add"), (down, "copy")):
        sends = {(a, b) for a in range(n) for b, action in hops[a] if action == "send"}
        receives = {(b, a) for a in range(n) for b, action in hops[a] if action == arrives}
        assert sends == receives
        assert len(sends) == n - 1
    # Every rank but 0 sends last on the way up, so that what it sends is finished.
    assert all([action for _, action in hops].index("send") == len(hops) - 1 for hops in up[1:])
    assert max(len(hops) for hops in up) <= (n - 1).bit_length()
