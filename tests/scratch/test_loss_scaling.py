"""The hand-written loss scaler is torch's GradScaler, number for number, through overflows."""

import random

import pytest
import torch
import torch.distributed as dist

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import dist as dtlibs
from dtlib.ranks.launcher import launch
from dtlib.scratch.loss_scaling import LossScaler, _device_of_collectives

SEED = 20261128


def weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    params = [torch.nn.Parameter(torch.randn(n, generator=generator)) for n in (3, 2)]
    return params, torch.optim.AdamW(params, lr=0.1)


def drawn_gradients(steps):
    """Some finite, some not: infinite, NaN, or absent on one parameter."""
    draw = random.Random(SEED)
    for _ in range(steps):
        pair = [torch.tensor([draw.gauss(0, 1) for _ in range(n)]) for n in (3, 2)]
        spoil = draw.random()
        if spoil < 0.3:
            bad = draw.choice([float("inf"), float("-inf"), float("nan")])
            pair[draw.randrange(2)][draw.randrange(2)] = bad
        elif spoil < 0.4:
            pair[1] = None
        yield pair


@pytest.mark.parametrize("settings", [
    {"growth_interval": 1},
    {"growth_interval": 3},
    {"init_scale": 2.0**126, "growth_interval": 1},  # fp32 ends at 2^128: it stays below
    {"init_scale": 1000.3, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("clip", [None, 0.5])
def test_equal_to_grad_scaler_step_for_step(settings, clip):
    mine, theirs = LossScaler(**settings), torch.amp.GradScaler("cpu", **settings)
    (my_params, my_steps), (their_params, their_steps) = weights(), weights()
    skipped = grown = 0
    for number, gradients in enumerate(drawn_gradients(60)):
        where = f"seed {SEED}, step {number}"
        before = mine.value
        loss = mine.scale(torch.ones(()))
        assert torch.equal(loss, theirs.scale(torch.ones(()))), where
        for params in (my_params, their_params):
            for p, gradient in zip(params, gradients, strict=True):
                p.grad = None if gradient is None else gradient * loss
        mine.unscale_(my_steps)
        theirs.unscale_(their_steps)
        for a, b in zip(my_params, their_params, strict=True):
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=0, equal_nan=True)
        if clip:
            for params in (my_params, their_params):
                torch.nn.utils.clip_grad_norm_(params, clip)
        taken = mine.step(my_steps)
        theirs.step(their_steps)
        mine.update()
        theirs.update()
        assert mine.value == theirs.get_scale(), where
        assert all(map(torch.equal, my_params, their_params)), where
        skipped, grown = skipped + (not taken), grown + (mine.value > before)
    assert mine.skipped == skipped
    assert min(skipped, grown) > 3  # the draw did meet both


def attempt(scaler, p, optimizer, gradient):
    p.grad = torch.tensor([gradient]) * scaler.value
    taken = scaler.step(optimizer)
    scaler.update()
    return taken


def one_weight(lr=1.0):
    p = torch.nn.Parameter(torch.zeros(1))
    return p, torch.optim.SGD([p], lr=lr)


# field bug 4.01
def test_a_clip_before_unscale_sees_scaled_gradients():
    """Gradient 10, scale 1024, largest norm 1: the update is -1, and -1/1024 in the wrong order."""
    for right in (True, False):
        scaler, (p, optimizer) = LossScaler(1024.0), one_weight()
        p.grad = torch.tensor([10.0]) * 1024
        if right:
            scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_([p], 1.0)
        scaler.step(optimizer)
        assert norm == (10.0 if right else 10240.0)
        assert p.item() == pytest.approx(-1.0 if right else -0.000977, rel=1e-3)


# field bug 4.03
def test_a_schedule_moves_on_only_after_a_step_that_was_taken():
    scaler, (p, optimizer) = LossScaler(), one_weight()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    if attempt(scaler, p, optimizer, float("inf")):
        schedule.step()
    assert (p.item(), scaler.value, optimizer.param_groups[0]["lr"]) == (0.0, 32768.0, 1.0)
    if attempt(scaler, p, optimizer, 1.0):
        schedule.step()
    assert (p.item(), scaler.value, optimizer.param_groups[0]["lr"]) == (-1.0, 32768.0, 0.5)


# field bug 3.08
def test_hysteresis_lets_the_first_overflow_pass_and_is_counted_anew_after_growth():
    scaler, (p, optimizer) = LossScaler(65536.0, growth_interval=2, hysteresis=2), one_weight()
    values = []
    for gradient in (float("inf"),) * 3 + (1.0,) * 2 + (float("inf"),) * 2:
        attempt(scaler, p, optimizer, gradient)
        values.append(scaler.value)
    assert values == [65536, 32768, 16384, 16384, 32768, 32768, 16384]


# field bug 3.08
def test_ten_attempts_with_six_overflows_are_four_steps():
    scaler, (p, optimizer) = LossScaler(), one_weight()
    infinite = (0, 1, 3, 5, 6, 9)
    taken = [
        attempt(scaler, p, optimizer, float("inf") if k in infinite else 1.0) for k in range(10)
    ]
    assert (sum(taken), scaler.skipped, p.item()) == (4, 6, -4.0)


# field bug 3.08
def test_a_streak_of_overflows_and_calls_out_of_order_are_errors():
    scaler, (p, optimizer) = LossScaler(skip_limit=2), one_weight()
    for gradient in (float("inf"), float("inf"), 1.0, float("inf"), float("inf")):
        attempt(scaler, p, optimizer, gradient)
    with pytest.raises(DtlibError, match=r"3 steps in a row overflowed .* down to 2048: use bf16"):
        attempt(scaler, p, optimizer, float("nan"))
    with pytest.raises(DtlibError, match=r"update\(\) has seen no gradients"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(DtlibError, match="unscaled once per step"):
        scaler.unscale_(optimizer)
    with pytest.raises(BadInput, match="by a factor above 1, not 1, every 1 or more"):
        LossScaler(growth_factor=1.0)


def on_shards():
    scaler, (p, optimizer) = LossScaler(sharded=True), one_weight()
    first = attempt(scaler, p, optimizer, float("inf") if dist.get_rank() == 1 else 1.0)
    return first, attempt(scaler, p, optimizer, 1.0), scaler.value, p.item()


def test_ranks_with_shards_skip_together():
    assert launch(on_shards, ranks=3, timeout=20, show=False) == [(False, True, 32768.0, -1.0)] * 3


@pytest.mark.parametrize(("backend", "device", "used"), [
    ("nccl", "cuda:1", "cuda:1"),  # refuses a tensor of the CPU
    ("cpu:gloo,cuda:nccl", "cuda:0", "cuda:0"),
    ("gloo", "cuda:0", "cpu"),
    ("gloo", "mps", "cpu"),  # refuses a tensor of an Apple GPU
])  # fmt: skip
def test_the_flag_of_a_skip_is_where_the_backend_takes_it(monkeypatch, backend, device, used):
    here = dtlibs.World(0, 0, 1, 1, torch.device(device), backend)
    monkeypatch.setattr(dtlibs, "world", lambda: here)
    assert _device_of_collectives() == torch.device(used)


def test_a_world_of_one_agrees_with_itself():
    scaler, (p, optimizer) = LossScaler(sharded=True), one_weight()
    assert not attempt(scaler, p, optimizer, float("inf"))
    assert attempt(scaler, p, optimizer, 1.0)
