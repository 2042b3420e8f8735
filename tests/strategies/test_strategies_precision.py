"""Mixed precision: what computes in which type, and what an overflow does."""

import contextlib

import pytest
import torch

from dtlib.errors import DtlibError
from dtlib.strategies import base
from dtlib.strategies.single import Single
from tests.toy import Scale, config, ready


def fp16(scale: float, **settings) -> base.Strategy:
    strategy = ready(Single, config(precision="fp16", **settings), Scale())
    strategy.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    strategy.loss_scale = scale
    return strategy


# field bug 4.01
def test_the_clip_sees_true_gradients_not_scaled_ones():
    """Gradient 10, scale 1024, largest norm 1: the norm is 10 and the update -1."""
    strategy = fp16(1024.0, clip=1.0)
    strategy.backward(strategy.model(torch.tensor([10.0])).sum(), torch.tensor(1.0))
    result = strategy.step(lr=1.0)
    assert result.grad_norm is not None
    assert result.grad_norm.item() == pytest.approx(10.0)
    assert strategy.module.w.item() == pytest.approx(1.0 - 1.0, abs=1e-5)
    assert not result.skipped


# field bugs 4.03 and 3.08
def test_an_overflow_leaves_the_weights_and_halves_the_scale():
    strategy = fp16(65536.0)
    for scale in (32768.0, 16384.0, 8192.0):
        strategy.backward(strategy.model(torch.tensor([float("inf")])).sum(), torch.tensor(1.0))
        assert strategy.step(lr=1.0).skipped
        assert strategy.module.w.item() == 1.0
        assert strategy.scaler.get_scale() == scale
    strategy.backward(strategy.model(torch.tensor([0.5])).sum(), torch.tensor(1.0))
    assert not strategy.step(lr=1.0).skipped
    assert strategy.module.w.item() == 0.5


# field bug 3.08
def test_a_streak_of_overflows_is_an_error_with_its_length():
    strategy = fp16(65536.0, skip_limit=2)
    overflow, fine = torch.tensor([float("inf")]), torch.tensor([0.5])
    for x in (overflow, overflow, fine, overflow, overflow):  # the fine one ends the first streak
        strategy.backward(strategy.model(x).sum(), torch.tensor(1.0))
        strategy.step(lr=0.1)
    strategy.backward(strategy.model(overflow).sum(), torch.tensor(1.0))
    with pytest.raises(DtlibError, match=r"overflowed in 3 steps in a row .* use precision bf16"):
        strategy.step(lr=0.1)


@pytest.mark.parametrize("precision", ["fp32", "fp64", "bf16", "fp16"])
def test_what_computes_in_which_type(precision):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    strategy = ready(Single, config(precision=precision), model)
    weights = torch.float64 if precision == "fp64" else torch.float32
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}
    with strategy.autocast():
        out = strategy.model(torch.ones(2, 4, dtype=weights))
    assert out.dtype == half.get(precision, weights)
    assert next(model.parameters()).dtype == weights
    assert strategy.scaler.is_enabled() == (precision == "fp16")


# field bug 4.04
def test_attention_in_fp16_stays_finite():
    """fp16 ends at 65504: a mask of -1e9 does not exist in it, and a fully masked row is NaN."""
    from dtlib.models import gpt

    model = gpt.GPT(gpt.shape("nano", vocab_size=8)).half()
    with contextlib.suppress(NotImplementedError):  # a CPU kernel that an older torch lacks in half
        assert model(torch.zeros(2, 16, dtype=torch.long)).isfinite().all()
    half = torch.zeros(1, dtype=torch.half)
    with pytest.raises(RuntimeError, match="overflow"):
        half.masked_fill(torch.tensor([True]), -1e9)
    assert torch.finfo(torch.half).min == -65504.0
    assert half.masked_fill(torch.tensor([True]), -65504.0).item() == -65504.0
    assert torch.full((1, 2), -torch.inf).softmax(-1).isnan().all()
    assert torch.tensor(65519.0).half().item() == 65504.0
    assert torch.tensor(65520.0).half().isinf()
    assert torch.tensor(1e-8).half().item() == 0.0
