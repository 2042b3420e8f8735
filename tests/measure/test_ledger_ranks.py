"""The ledger on several ranks: every collective seen, by two witnesses, with its bytes."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.debug import CommDebugMode

from dtlib.measure import ledger
from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.ranks.launcher import launch
from dtlib.sim.collectives import ring_wire_bytes
from tests.scratch_cases import ZERO

FLOAT = 4
N = 12  # elements of a whole tensor, which 1, 2, 3 and 4 ranks divide


def all_sorts() -> None:
    """Call each collective once on a whole tensor of N numbers; and send two messages."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, part = torch.ones(N), torch.ones(N // ranks)
    parts = list(torch.ones(N).chunk(ranks))
    dist.all_reduce(whole)
    dist.broadcast(whole, src=0)
    dist.reduce(whole, dst=0)
    dist.all_gather(parts, part)
    reduce_scatter_sum(part, whole)
    dist.all_to_all(parts, list(torch.ones(N).chunk(ranks)))
    dist.barrier()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    messages = [dist.isend(part, right), dist.irecv(torch.empty(N // ranks), left)]
    received = torch.empty(N // ranks)
    pair = [dist.P2POp(dist.isend, part, right), dist.P2POp(dist.irecv, received, left)]
    for work in [*messages, *dist.batch_isend_irecv(pair)]:
        work.wait()


def witnesses() -> tuple[dict, dict, dict]:
    """Return the ledger's tallies, CommDebugMode's counts and the flight recorder's tallies."""
    dist.all_reduce(torch.ones(1))  # before the watch, so it must not be in it
    with CommDebugMode() as mode, ledger.watch() as page:
        all_sorts()
    counts = {str(op).rpartition(".")[2]: number for op, number in mode.get_comm_counts().items()}
    found = page.to_dict()
    return found["collectives"], counts, found["carried_out"]


@pytest.fixture(scope="module", params=[2, 3])
def seen(request):
    return request.param, launch(witnesses, ranks=request.param, timeout=20, show=False)


def test_every_collective_is_seen_with_the_bytes_of_the_whole_tensor(seen):
    ranks, results = seen
    for tallies, _, _ in results:
        for name in ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter"):
            assert (tallies[name]["calls"], tallies[name]["payload"]) == (1, N * FLOAT), name
            assert tallies[name]["wire"] == ring_wire_bytes(name, N * FLOAT, ranks)
        assert tallies["all_to_all"]["payload"] == N * FLOAT
        assert tallies["barrier"] == {"calls": 1, "payload": 0, "wire": 0.0}
        for name in ("send", "recv"):
            assert (tallies[name]["calls"], tallies[name]["payload"]) == (2, 2 * N // ranks * FLOAT)
        assert tallies["send"]["wire"] == tallies["send"]["payload"]
        assert tallies["recv"]["wire"] == 0


def test_comm_debug_mode_counts_the_same_calls(seen):
    names = {"allreduce_": "all_reduce", "broadcast_": "broadcast", "reduce_": "reduce",
             "allgather_": "all_gather", "_reduce_scatter_base_": "reduce_scatter",
             "alltoall_": "all_to_all"}  # fmt: skip
    for tallies, counts, _ in seen[1]:
        assert {names[op]: number for op, number in counts.items()} == {
            name: tally["calls"] for name, tally in tallies.items() if name in names.values()
        }


def test_the_flight_recorder_has_the_same_bytes_and_what_gloo_made_of_a_reduce_scatter(seen):
    for tallies, _, recorded in seen[1]:
        # gloo has no reduce-scatter: it all-reduces and keeps a part; messages are not recorded
        assert "reduce_scatter" not in recorded
        both = tallies["all_reduce"]["payload"] + tallies["reduce_scatter"]["payload"]
        assert recorded["all_reduce"] == {**recorded["all_reduce"], "calls": 2, "payload": both}
        for name in ("broadcast", "reduce", "all_gather"):
            assert recorded[name] == tallies[name]
        assert not {"send", "recv"} & recorded.keys()


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


PSI, ROWS = 8 * 16 + 16 + 16 * 4 + 4, (16, 4)


def steps(model, take=3) -> list[dict]:
    """Return the pages of steps on 32 samples a rank."""
    optimizer, x, pages = torch.optim.AdamW(model.parameters(), lr=1e-3), torch.randn(32, 8), []
    for _ in range(take):
        with ledger.watch(model, optimizer) as page:
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        pages.append(page.to_dict())
    return pages


def ddp_and_fsdp() -> tuple[list[dict], list[dict]]:
    from torch.distributed.fsdp import fully_shard

    ddp = steps(nn.parallel.DistributedDataParallel(mlp(), gradient_as_bucket_view=True))
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    sharded = mlp()
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=mesh)
    return ddp, steps(sharded)


@pytest.fixture(scope="module", params=[2, 3])
def trained(request):
    return request.param, launch(ddp_and_fsdp, ranks=request.param, timeout=20, show=False)


def test_ddps_all_reduces_from_cpp_are_seen_and_its_buckets_are_the_gradients_memory(trained):
    _, results = trained
    for (first, _, third), _ in results:
        assert third["collectives"].keys() == {"all_reduce"}
        assert third["collectives"]["all_reduce"]["payload"] == PSI * FLOAT
        assert third["carried_out"] == third["collectives"]
        assert third["between_steps"]["parameters"] == PSI * FLOAT
        assert third["before_update"]["gradients"] == PSI * FLOAT
        # between two steps the bucket is there, and no gradient in it
        assert third["between_steps"]["gradients"] == third["before_update"]["communication"] == 0
        assert third["between_steps"]["communication"] == PSI * FLOAT
        assert first["between_steps"]["optimizer"] == 2 * PSI * FLOAT


def test_fully_shard_holds_its_rows_and_gathers_each_layer_twice(trained):
    ranks, results = trained
    for rank, (_, pages) in enumerate(results):
        page = pages[-1]
        chunks = [-(-rows // ranks) for rows in ROWS]  # rows of a shard, the last ranks' are fewer
        own = [max(0, min(c, r - rank * c)) for c, r in zip(chunks, ROWS, strict=True)]
        held = own[0] * (8 + 1) + own[1] * (16 + 1)
        padded = ranks * (chunks[0] * (8 + 1) + chunks[1] * (16 + 1))
        assert page["between_steps"]["parameters"] == held * FLOAT
        assert page["before_update"]["gradients"] == held * FLOAT
        assert page["between_steps"]["optimizer"] == 2 * held * FLOAT
        assert page["collectives"]["all_gather"]["payload"] == 2 * padded * FLOAT
        assert page["collectives"]["reduce_scatter"]["payload"] == padded * FLOAT
        assert page["gathered"] == 2 * PSI * FLOAT  # seen at the parameters, without padding
        assert page["most"]["activations"] == 32 * (8 + 16) * FLOAT  # no weight is among them


def by_hand() -> list[tuple[dict, dict, int]]:
    """Return the page of each stage's second step, what the kernel says it sent, and Ψ padded."""
    from dtlib.scratch import zero

    found = []
    for stage in (1, 2, 3):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 12), nn.Linear(12, 6))  # two ranks divide every tensor
        sharded = ZERO[stage](model, zero.AdamW(lr=1e-3))
        for _ in range(2):
            sharded.wire.sent.clear()
            with ledger.watch(model, sharded) as page:
                sharded.backward(sharded(torch.randn(32, 8)).sum())
                sharded.step()
        padded = sum(bucket.flat.numel() for bucket in sharded.buckets)
        found.append((page.to_dict(), dict(sharded.wire.sent), padded))
    return found


def test_stages_by_hand_are_measured_in_the_same_way_and_their_own_meter_agrees():
    psi = 8 * 12 + 12 + 12 * 6 + 6
    for stages in launch(by_hand, ranks=2, timeout=20, show=False):
        for stage, (page, sent, padded) in enumerate(stages, start=1):
            assert padded == psi
            assert page["between_steps"]["optimizer"] == 2 * psi // 2 * FLOAT
            whole = psi if stage < 3 else psi // 2
            assert page["between_steps"]["parameters"] == whole * FLOAT
            gradients = psi if stage == 1 else psi // 2
            assert page["before_update"]["gradients"] == gradients * FLOAT
            # hand-made rings are messages: nothing is derived, and torch's collectives do not occur
            assert page["collectives"]["send"]["payload"] == sum(sent.values())
            assert page["collectives"].keys() == {"send", "recv"}
