"""The ring by hand is an all-reduce: same sums, same bits on all ranks, bytes by formula."""

import itertools
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.learn.wire import WireLog
from dtlib.ranks.launcher import launch
from dtlib.scratch import ring
from tests.scratch_cases import ring_wire_elements

SIZES = (1000, 1001, 7, 2, 0)


def sums(size):
    x = torch.randn(size, generator=torch.Generator().manual_seed(dist.get_rank()))
    torchs = x.clone()
    with WireLog() as log:
        ring.ring_all_reduce(x)
    dist.all_reduce(torchs)
    return x, torchs, log.bytes_sent, len(log.sent)


def all_sums():
    return [sums(size) for size in SIZES]


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def world(request):
    return request.param, launch(all_sums, ranks=request.param, timeout=20, show=False)


@pytest.mark.parametrize("k", range(len(SIZES)), ids=map(str, SIZES))
def test_equal_to_all_reduce_and_the_same_bits_on_all_ranks(world, k):
    n, results = world
    for mine, torchs, _, _ in (rank[k] for rank in results):
        # n - 1 additions of numbers below 5 in either order: 2 (n - 1) half-ulps of 4 n.
        torch.testing.assert_close(mine, torchs, rtol=0, atol=2 * n * n * 2.4e-7)
    assert len({rank[k][0].numpy().tobytes() for rank in results}) == 1


@pytest.mark.parametrize("k", range(len(SIZES)), ids=map(str, SIZES))
def test_bytes_on_the_wire(world, k):
    n, results = world
    for rank, (_, _, sent, messages) in enumerate(result[k] for result in results):
        assert sent == 4 * ring_wire_elements(SIZES[k], n, rank)
        assert sent <= 4 * 2 * (n - 1) * -(-SIZES[k] // n)
        assert messages == 2 * (n - 1)


def halves():
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((6,), 10.0**rank)
    ring.ring_reduce_scatter(x)
    finished = [bool((chunk == 111).all()) for chunk in ring.cut(x, n)]
    ring.ring_all_gather(x)
    return finished, x.tolist()


def test_after_the_first_half_rank_r_has_finished_chunk_r_plus_1():
    for rank, (finished, end) in enumerate(launch(halves, ranks=3, timeout=20, show=False)):
        assert [k for k, done in enumerate(finished) if done] == [(rank + 1) % 3]
        assert end == [111.0] * 6


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_schedules_fit_together_without_any_process(n):
    for steps in (ring.reduce_scatter_steps, ring.all_gather_steps):
        schedules = [steps(rank, n) for rank in range(n)]
        for rank, mine in enumerate(schedules):
            assert len(mine) == n - 1
            for step, left in zip(mine, schedules[rank - 1], strict=True):
                assert step.receive == left.send
    for rank in range(n):
        whole = ring.reduce_scatter_steps(rank, n)
        assert all(b.send == a.receive for a, b in itertools.pairwise(whole))
        assert [s.update for s in ring.all_gather_steps(rank, n)] == ["copy"] * (n - 1)


def test_a_matrix_is_summed_and_a_transposed_one_is_refused():
    assert [tuple(c.shape) for c in ring.cut(torch.zeros(2, 3), 4)] == [(2,), (2,), (1,), (1,)]
    with pytest.raises(BadInput, match="not contiguous"):
        ring.cut(torch.zeros(2, 3).t(), 2)


def test_neighbours_exchange_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On GPUs a send and a receive that follow each other may wait for a neighbour's for ever."""
    batches: list[list[tuple[str, int]]] = []

    def batch(calls: list[dist.P2POp]) -> list[dist.Work]:
        batches.append([(call.op.__name__, call.peer) for call in calls])
        return []

    monkeypatch.setattr(dist, "get_rank", lambda *_: 3)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 4)
    monkeypatch.setattr(dist, "P2POp", lambda op, tensor, peer: SimpleNamespace(op=op, peer=peer))
    monkeypatch.setattr(dist, "batch_isend_irecv", batch)
    ring.exchange(torch.ones(2), torch.empty(2))
    assert batches == [[("isend", 0), ("irecv", 2)]]
