"""Data parallel by hand, in four ways: one process's weights, DDP's bits, refusals in sentences."""

import contextlib
import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from dtlib.errors import BadInput
from dtlib.learn.wire import WireLog
from dtlib.ranks.launcher import launch
from dtlib.scratch import data_parallel as dp
from dtlib.scratch.data_parallel.naive import trainable
from tests.scratch_cases import ROUNDING, batch, cut, flat, gap, mlp, optimizer, raised, serial

WIDTHS, SAMPLES, STEPS, CAP = [5, 7, 4, 3], 24, 3, 200


class After:
    """A way that averages gradients in one call, with the face of the overlapped one."""

    def __init__(self, model, average):
        dp.same_start(model)
        self.model, self.wait = model, lambda: average(model)
        self.no_sync = contextlib.nullcontext


class Ddp(DistributedDataParallel):
    """The real thing, which ends its communication within backward."""

    def wait(self):
        pass


WAYS = {
    "naive": lambda model: After(model, dp.average_gradients),
    "flat": lambda model: After(model, dp.flat_all_reduce),
    "buckets": lambda model: After(model, lambda m: dp.bucket_all_reduce(m, CAP)),
    "overlap": lambda model: dp.OverlappedDataParallel(model, CAP),
    "unused": lambda model: dp.OverlappedDataParallel(model, CAP, find_unused=True),
    "ddp": lambda model: Ddp(model, bucket_cap_mb=CAP / 2**20),
}


def train(way, name, accumulation, set_to_none):
    model = mlp(WIDTHS, seed=dist.get_rank() if way != "ddp" else 0)
    parallel, steps = WAYS[way](model), optimizer(name, model)
    call = parallel if way == "ddp" else model
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in range(STEPS):
        micro = cut(batch(5, 3, SAMPLES, step), rank, ranks, accumulation)
        for i, (x, y) in enumerate(micro):
            with parallel.no_sync() if i < len(micro) - 1 else contextlib.nullcontext():
                (F.mse_loss(call(x), y) / accumulation).backward()
        parallel.wait()
        steps.step()
        steps.zero_grad(set_to_none=set_to_none)
    return model


def all_cases():
    return {
        (way, name, accumulation, none): train(way, name, accumulation, none)
        for way in WAYS
        for name in ("sgd", "adamw")
        for accumulation in (1, 3)
        for none in (True, False)
    }


@pytest.fixture(scope="module", params=[1, 2, 4])
def world(request):
    return request.param, launch(all_cases, ranks=request.param, timeout=20, show=False)


@pytest.mark.parametrize("way", WAYS)
def test_equal_to_one_process_and_the_same_bits_on_all_ranks(world, way):
    for name in ("sgd", "adamw"):
        alone = mlp(WIDTHS)
        serial(alone, name, [batch(5, 3, SAMPLES, step) for step in range(STEPS)])
        for key, model in world[1][0].items():
            if key[:2] == (way, name):
                assert gap(model, alone) < ROUNDING, key
                assert all(torch.equal(flat(rank[key]), flat(model)) for rank in world[1]), key


def test_on_two_ranks_the_overlapped_one_has_the_bits_of_ddp(world):
    # Four summands may be added in another order, which rounds in another way.
    for key, model in world[1][0].items():
        if key[0] == "overlap":
            ddp = world[1][0]["ddp", *key[1:]]
            assert gap(model, ddp) < (ROUNDING if world[0] == 4 else 1e-300), key


def messages():
    x, y = cut(batch(5, 3, SAMPLES, 0), dist.get_rank(), 2, 1)[0]
    sizes = {}
    for way in ("naive", "flat", "buckets", "overlap"):
        model = mlp(WIDTHS)
        parallel = WAYS[way](model)
        with WireLog() as log:
            F.mse_loss(model(x), y).backward()
            early = len(log.messages)
            parallel.wait()
        assert {message.kind for message in log.messages} == {"all_reduce"}
        sizes[way] = [message.bytes for message in log.messages], early
    return sizes


def test_messages_of_each_way_and_which_leave_before_backward_ends():
    model = mlp(WIDTHS)
    whole = 8 * sum(p.numel() for p in model.parameters())
    buckets = [8 * sum(p.numel() for p in b) for b in dp.assign_buckets([*model.parameters()], CAP)]
    assert len(buckets) > 3
    for sizes in launch(messages, ranks=2, timeout=20, show=False):
        assert sizes["naive"] == ([8 * p.numel() for p in model.parameters()], 0)
        assert sizes["flat"] == ([whole], 0)
        assert sizes["buckets"] == (buckets, 0)
        assert sizes["overlap"] == (buckets, len(buckets))


def sizes_of(params, cap):
    index = {p: k for k, p in enumerate(params)}
    return [[index[p] for p in bucket] for bucket in dp.assign_buckets(params, cap)]


def test_buckets_hold_every_parameter_once_last_first_and_one_dtype():
    make = lambda n, dtype=torch.float32: nn.Parameter(torch.zeros(n, dtype=dtype))  # noqa: E731
    params = [make(10), make(5), make(30), make(5), make(5)]
    assert sizes_of(params, 40) == [[4, 3], [2], [1], [0]]
    assert sizes_of(params, 39) == [[4], [3], [2], [1], [0]]
    assert sizes_of(params, 10**9) == [[4, 3, 2, 1, 0]]
    assert sizes_of([make(4), make(4, torch.bfloat16), make(4)], 32) == [[2, 0], [1]]
    assert dp.assign_buckets([]) == []
    with pytest.raises(BadInput, match="must be at least 1, not 0"):
        dp.assign_buckets(params, 0)


class Odd(nn.Module):
    """Layers that only some ranks use: `parts` says which, `none` nobody's; one is frozen."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({k: nn.Linear(1, 1) for k in ("all", "one", "none", "frozen")})
        self.parts["frozen"].requires_grad_(False)

    def forward(self, x):
        y = self.parts["frozen"](self.parts["all"](x))
        return y + self.parts["one"](x) if dist.get_rank() == 0 else y


def unused():
    found = {}
    for way in ("naive", "flat", "buckets", "unused", "overlap"):
        torch.manual_seed(0)
        model = Odd()
        parallel = WAYS[way](model)
        model(torch.ones(1, 1)).sum().backward()
        if way == "overlap":
            dist.barrier()
            found[way] = raised(parallel.wait)
            continue
        parallel.wait()
        found[way] = {name: p.grad for name, p in model.named_parameters()}
    return found


# field bug 1.12
def test_a_parameter_that_one_rank_or_none_used():
    for rank, found in enumerate(launch(unused, ranks=3, timeout=20, show=False)):
        names = {0: "parts.none.bias, parts.none.weight"}.get(
            rank, "parts.none.bias, parts.none.weight, parts.one.bias, parts.one.weight"
        )
        assert found.pop("overlap") == (
            f"DtlibError: rank {rank}: backward gave no gradient to {names}: freeze what the loss "
            "does not use (requires_grad_(False)), or set find_unused=True."
        )
        for way, gradients in found.items():
            # Gradient 1 on one rank of three; 1/3 rounds once.
            torch.testing.assert_close(gradients["parts.one.weight"].item(), 1 / 3)
            nobodys = gradients["parts.none.weight"]
            assert nobodys is None if way == "unused" else nobodys.item() == 0
            assert gradients["parts.frozen.weight"] is None


def layouts():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(dist.get_rank()))
    found = {}
    for way in ("naive", "flat", "buckets", "overlap"):
        model = copy.deepcopy(conv)
        parallel = WAYS[way](model)
        model(x).pow(2).sum().backward()
        parallel.wait()
        found[way] = model.weight.grad.stride() == model.weight.stride(), model.weight.grad.clone()
    half = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).bfloat16()])
    for way in ("naive", "flat", "buckets", "overlap"):
        model = copy.deepcopy(half)
        parallel = WAYS[way](model)
        (model[0](torch.ones(2)).sum() + model[1](torch.ones(2).bfloat16()).sum()).backward()
        parallel.wait()
        assert [p.grad.dtype for p in model.parameters()] == [p.dtype for p in model.parameters()]
        assert all(bool(p.grad.eq(1).all()) for p in model.parameters())
    sparse = nn.Embedding(4, 2, sparse=True)
    says = []
    for way in ("naive", "overlap"):
        parallel = WAYS[way](sparse)
        says.append(
            raised(lambda p=parallel: (sparse(torch.tensor([1])).sum().backward(), p.wait()))
        )
    model = nn.Linear(1, 1)
    parallel = WAYS["overlap"](model)
    model(torch.ones(1)).backward()
    says.append(raised(model(torch.ones(1)).backward))
    parallel.wait()
    return found, says


def test_layouts_dtypes_sparse_gradients_and_a_forgotten_wait():
    ranks = launch(layouts, ranks=2, timeout=20, show=False)
    for rank, (found, says) in enumerate(ranks):
        same = [gradient for _, gradient in found.values()]
        assert all(torch.equal(gradient, same[0]) for gradient in same)
        assert found["overlap"][0]
        assert f"rank {rank}: a parameter of shape (4, 2) has a sparse gradient" in says[0]
        assert f"rank {rank}: weight has a sparse gradient" in says[1]
        assert f"rank {rank}: a second backward came before wait(): put no_sync()" in says[2]
    assert torch.equal(ranks[0][0]["naive"][1], ranks[1][0]["naive"][1])


def on_a_slow_link():
    clock = [0.0]
    link = dp.DelayedLink(
        1.0, 0.5, now=lambda: clock[0], sleep=lambda s: clock.__setitem__(0, clock[0] + s)
    )
    first, second = (link.all_reduce(torch.full((size,), 1.0)) for size in (4, 2))
    arrives = first.arrives, second.arrives
    clock[0] = 8.0  # backward goes on meanwhile
    first.wait()
    second.wait()
    model = mlp(WIDTHS)
    parallel = dp.OverlappedDataParallel(model, CAP, all_reduce=dp.DelayedLink(0, 0).all_reduce)
    x, y = cut(batch(5, 3, SAMPLES, 0), dist.get_rank(), 2, 1)[0]
    F.mse_loss(model(x), y).backward()
    parallel.wait()
    return arrives, clock[0], link.busy, link.waited, [p.grad for p in trainable(model)]


def test_a_delayed_link_works_by_itself_and_sums_for_real():
    """2 (1 + 8·0.5) = 10 for 16 bytes on two ranks, then 2 (1 + 4·0.5) = 6 for 8, one by one."""
    x, y = batch(5, 3, SAMPLES, 0)
    alone = mlp(WIDTHS)
    F.mse_loss(alone(x), y).backward()
    for arrives, now, busy, waited, gradients in launch(on_a_slow_link, ranks=2, timeout=20):
        assert arrives == (10, 16)
        assert (now, busy, waited) == (16, 16, 8)  # 8 of the 16 were hidden
        for mine, p in zip(gradients, alone.parameters(), strict=True):
            torch.testing.assert_close(mine, p.grad, rtol=0, atol=ROUNDING)
