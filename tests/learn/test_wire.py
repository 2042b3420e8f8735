"""The wire log sees every message, whichever of torch's functions sent it."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from dtlib.learn.wire import ANY, Forbidden, WireLog, elements_sent
from dtlib.ranks.launcher import launch


def three_ways():
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    x, y = torch.full((3,), 10.0**rank), torch.zeros(3)
    with WireLog(watch=x) as log:
        work = dist.isend(x, right)
        dist.recv(y, left)
        work.wait()
        ops = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        dist.all_reduce(y)
    dist.all_reduce(y)  # outside: not in the log
    return log.messages, log.bytes_sent


def test_messages_and_collectives():
    for rank, (messages, sent) in enumerate(launch(three_ways, ranks=3, timeout=20, show=False)):
        kinds = ["send", "recv", "send", "recv", "all_reduce"]
        assert [m.kind for m in messages] == kinds
        assert [m.peer for m in messages[:2]] == [(rank + 1) % 3, (rank - 1) % 3]
        assert messages[0].values == (10.0**rank,)
        assert messages[0].state == [10.0**rank] * 3
        assert (messages[0].elements, messages[0].bytes, sent) == (3, 12, 24)
        assert all(m.waited and not m.changed for m in messages if m.peer is not None)


def buffers():
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    x, y = torch.full((3,), 10.0**rank), torch.zeros(3)
    with WireLog() as log:
        work = dist.isend(x, right)
        dist.recv(y, left)
        x.fill_(-1)
        work.wait()
        if rank == 0:  # waited for before the receive: one buffer is right here
            dist.send(x, 1)
            dist.recv(x, n - 1)
        else:
            dist.recv(y, left)
            dist.send(y, right)
        work = dist.isend(x, right)
        dist.recv(x, left)
        work.wait()
    return [(m.kind, m.changed, m.overlaps) for m in log.messages]


def test_buffers_that_change_or_overlap_while_they_are_sent():
    seen = launch(buffers, ranks=3, timeout=20, show=False)[0]
    assert seen[0] == ("send", True, False)
    assert seen[3] == ("recv", False, False)
    assert seen[5] == ("recv", False, True)


def from_anybody():
    x = torch.full((2,), 10.0 * dist.get_rank())
    with WireLog() as log:
        if dist.get_rank() == 0:
            assert dist.recv(x) == 1
        else:
            dist.send(x, 0)
    return x.tolist(), [(m.kind, m.peer, m.waited) for m in log.messages], log.bytes_sent


def test_a_receive_that_names_no_rank_is_logged():
    assert launch(from_anybody, ranks=2, timeout=20, show=False) == [
        ([10.0, 10.0], [("recv", ANY, True)], 0),
        ([10.0, 10.0], [("send", 0, True)], 8),
    ]


def locked():
    with pytest.raises(Forbidden, match="all_reduce"), WireLog(forbid_collectives=True):
        dist.all_reduce(torch.ones(1))
    x = torch.ones(1)
    dist.all_reduce(x)
    return x.item()


def test_collectives_can_be_locked_and_are_free_again():
    assert launch(locked, ranks=2, timeout=20, show=False) == [2.0, 2.0]


def leaves_them_on_their_way():
    rank, n = dist.get_rank(), dist.get_world_size()
    x, y = torch.full((3,), 10.0**rank), torch.zeros(3)
    with WireLog() as log:
        dist.isend(x, (rank + 1) % n)
        dist.irecv(y, (rank - 1) % n)
    log.settle()
    return y.tolist(), [m.waited for m in log.messages]


def test_what_nobody_waited_for_arrives_and_is_still_told():
    seen = launch(leaves_them_on_their_way, ranks=3, timeout=20, show=False)
    assert seen == [([10.0 ** ((r - 1) % 3)] * 3, [False, False]) for r in range(3)]


def meets_a_stranger():
    with WireLog() as log, pytest.raises(ValueError, match="rank 2 is not one of these 2 ranks"):
        dist.isend(torch.zeros(1), 2)
    return [m.peer for m in log.messages]


def test_a_rank_that_does_not_exist_is_refused_and_logged():
    assert launch(meets_a_stranger, ranks=2, timeout=20, show=False) == [[2], [2]]


def started():
    x = torch.ones(2)
    with WireLog() as log:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        forgotten = dist.all_reduce(x, async_op=True)
    waited = [m.waited for m in log.messages]
    log.settle()
    return waited, [m.waited for m in log.messages], forgotten.is_completed()


def test_a_collective_that_nobody_waited_for_is_noted():
    for seen in launch(started, ranks=2, timeout=20, show=False):
        assert seen == ([True, True, False], [True, True, False], True)


def named(name, older):
    """A functional collective, which torch 2.14 has renamed."""
    return getattr(funcol, name, None) or getattr(funcol, older)


def functional_calls():
    """Each collective of `_functional_collectives` on 6 elements, and what DTensor sends."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh

    x, world = torch.arange(6.0), dist.group.WORLD
    part = DTensor.from_local(x, init_device_mesh("cpu", (2,)), [Partial()], run_check=False)
    shard = DTensor.from_local(x, part.device_mesh, [Shard(0)], run_check=False)
    n = dist.get_world_size()
    sent, arrived = {}, {}
    for name, call in {
        "all_reduce": lambda: funcol.all_reduce(x, "sum", world),
        "all_reduce_coalesced": lambda: sum(funcol.all_reduce_coalesced([x, x], "sum", world)),
        "all_gather": lambda: named("all_gather_single", "all_gather_tensor")(x, 0, world),
        "reduce_scatter": lambda: named("reduce_scatter_single", "reduce_scatter_tensor")(
            x, "sum", 0, world
        ),
        "all_to_all": lambda: funcol.all_to_all_single(x, None, None, world),
        "with a gradient": lambda: named(
            "all_gather_single_autograd", "all_gather_tensor_autograd"
        )(x, 0, world),
        "partial": lambda: part.redistribute(placements=[Replicate()]).to_local(),
        "shard": lambda: shard.redistribute(placements=[Replicate()]).to_local(),
    }.items():
        with WireLog() as log:
            arrived[name] = (call() + 0).sum().item()
        sent[name] = ([m.kind for m in log.messages], elements_sent(log.messages, n))
    with pytest.raises(Forbidden, match="all_reduce"), WireLog(forbid_collectives=True):
        funcol.all_reduce(x, "sum", world)
    with WireLog() as log:  # all_to_all_single: each rank sends all but its own part
        dist.all_to_all_single(torch.empty(6), x)
    sent["not functional"] = ([m.kind for m in log.messages], elements_sent(log.messages, n))
    shards, parts = [x[:1].clone(), x[:2].clone()], [[x[:1].clone(), x[:2].clone()] for _ in "12"]
    for name, coalesced in {
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced(shards),
        "in the background": lambda: dist.all_reduce_coalesced(shards, async_op=True).wait(),
        "all_gather_coalesced": lambda: dist.all_gather_coalesced(parts, shards),
    }.items():
        with WireLog() as log:
            coalesced()
        assert all(m.waited for m in log.messages)
        sent[f"dist.{name}"] = ([m.kind for m in log.messages], elements_sent(log.messages, n))
    return sent, arrived, type(torch.ops._c10d_functional.all_reduce).__name__


def test_functional_collectives_and_those_of_dtensor_are_logged():
    for rank, (sent, arrived, after) in enumerate(
        launch(functional_calls, ranks=2, timeout=60, show=False)
    ):
        assert sent == {
            "all_reduce": (["all_reduce"], 6),
            "all_reduce_coalesced": (["all_reduce", "all_reduce"], 12),
            "all_gather": (["all_gather"], 6),
            "reduce_scatter": (["reduce_scatter"], 3),
            "all_to_all": (["all_to_all_single"], 3),
            "with a gradient": (["all_gather"], 6),
            "partial": (["all_reduce"], 6),
            "shard": (["all_gather"], 6),
            "not functional": (["all_to_all_single"], 3),
            "dist.all_reduce_coalesced": (["all_reduce"], 3),
            "dist.in the background": (["all_reduce"], 3),
            "dist.all_gather_coalesced": (["all_gather"], 3),
        }
        assert arrived["all_reduce"] == arrived["partial"] == arrived["shard"] == 30
        assert arrived["reduce_scatter"] == (6, 24)[rank]
        assert after == "OpOverloadPacket"  # nothing of the log is left behind


@pytest.mark.skipif(not hasattr(funcol, "isend_inplace"), reason="torch 2.14 brought them")
def test_functional_messages_are_logged():
    for rank, (kinds, arrived) in enumerate(
        launch(functional_messages, ranks=2, timeout=20, show=False)
    ):
        assert kinds == [("send", 1 - rank, 3), ("recv", 1 - rank, 3)] * 2
        assert arrived == 3 * 10.0 ** (1 - rank)


def functional_messages():
    x, y, other = torch.full((3,), 10.0 ** dist.get_rank()), torch.zeros(3), 1 - dist.get_rank()
    with WireLog() as log:
        sent = funcol.isend_inplace(x, other)
        (funcol.irecv_inplace(y, other) + 0).sum(), sent.wait()
        both = ["isend", "irecv"], [other] * 2, [0, 0], [x, y], dist.group.WORLD.group_name
        arrived = (funcol.batch_p2p_ops_inplace(*both)[1] + 0).sum().item()
    return [(m.kind, m.peer, m.elements) for m in log.messages], arrived
