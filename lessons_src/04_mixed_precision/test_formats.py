"""What a format can hold: against torch's own types, casts and limits."""

import math
import random

import pytest
import torch

from . import formats

TYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
}
WHOLE = {8: torch.uint8, 16: torch.int16, 32: torch.int32}
SEED = 20261128


@pytest.mark.parametrize("name", ["bf16", "fp16", "e5m2", "e4m3"])
def test_every_row_of_bits_means_what_torch_says(name: str) -> None:
    exponent_bits, mantissa_bits, infinities = formats.FORMATS[name]
    width = 1 + exponent_bits + mantissa_bits
    rows = torch.arange(2**width)
    theirs = rows.to(WHOLE[width]).view(TYPES[name]).double()
    mine = [formats.decode(int(b), exponent_bits, mantissa_bits, infinities) for b in rows]
    torch.testing.assert_close(
        torch.tensor(mine, dtype=torch.float64), theirs, rtol=0, atol=0, equal_nan=True
    )
    assert math.copysign(1, mine[2 ** (width - 1)]) == -1  # minus zero


def test_fp32_rows_of_bits() -> None:
    draw = random.Random(SEED)
    rows = [draw.getrandbits(32) for _ in range(2000)] + [0, 1, 2**31, 0x7F7FFFFF, 0x7F800000]
    signed = torch.tensor([b - 2**32 if b >= 2**31 else b for b in rows], dtype=torch.int32)
    theirs = signed.view(torch.float32).double()
    mine = torch.tensor([formats.decode(b, 8, 23) for b in rows], dtype=torch.float64)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", list(formats.FORMATS))
def test_limits_are_those_of_finfo(name: str) -> None:
    ends, info = formats.limits(name), torch.finfo(TYPES[name])
    assert (ends["largest"], ends["smallest_normal"]) == (info.max, info.smallest_normal)
    assert ends["eps"] == info.eps
    smallest = torch.tensor(1, dtype=WHOLE[info.bits]).view(TYPES[name])
    assert ends["smallest"] == smallest.double().item()


@pytest.mark.parametrize("name", list(formats.FORMATS))
def test_rounding_is_torchs_cast(name: str) -> None:
    draw, ends = random.Random(SEED), formats.limits(name)
    low, high = (math.log2(ends[key]) for key in ("smallest", "largest"))
    xs = [draw.choice((-1, 1)) * 2 ** draw.uniform(low - 2, high) for _ in range(3000)]
    xs += [ends[key] * k / 4 for key in ("smallest", "smallest_normal", "eps") for k in range(9)]
    xs += [ends["largest"], -ends["largest"], 0.0, -0.0, math.nan]
    # a number that is fp32 already, so that torch rounds once, too
    xs = [x for x in torch.tensor(xs).double().tolist() if abs(x) <= ends["largest"] or x != x]
    mine = torch.tensor([formats.round_to(x, name) for x in xs], dtype=torch.float64)
    theirs = torch.tensor(xs).to(TYPES[name]).double()
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


# field bug 4.04
def test_where_fp16_ends() -> None:
    found = [formats.round_to(x, "fp16") for x in (65519, 65520, -65520, 1e-8, 2**-25)]
    assert found == [65504, math.inf, -math.inf, 0, 0]
    assert formats.round_to(1.0001 * 2**-25, "fp16") == 2**-24
    assert formats.round_to(math.inf, "fp16") == math.inf


def test_beyond_the_largest_number_of_e4m3() -> None:
    """464 is half-way to the number that would come next, and 448 has the even mantissa."""
    assert formats.round_to(464, "e4m3") == 448
    for x in (465, math.inf, -1e9):
        assert math.isnan(formats.round_to(x, "e4m3"))
        assert torch.tensor(float(x)).to(torch.float8_e4m3fn).float().abs().item() in (
            448.0,
            pytest.approx(math.nan, nan_ok=True),
        )


def test_a_thousand_small_steps_of_bf16_are_none() -> None:
    x = 1.0
    for _ in range(1000):
        x = formats.round_to(x + 0.001, "bf16")
    assert x == 1.0


def test_a_share_is_that_of_drawn_gradients() -> None:
    generator = torch.Generator().manual_seed(SEED)
    drawn = 2 ** (torch.randn(200_000, generator=generator, dtype=torch.float64) * 4 - 20)
    for power in (0, 8, 30):
        cast = (drawn * 2**power).half()
        below, above = formats._lost("fp16", power, -20, 4)
        # three standard deviations of a share drawn 200,000 times
        assert below == pytest.approx((cast == 0).double().mean().item(), abs=0.0034)
        assert above == pytest.approx(cast.isinf().double().mean().item(), abs=0.0034)


def test_the_what_if_tells_how_much_a_scale_saves() -> None:
    told = formats.lost_gradients(0, -24, 3)
    assert told["point"] == [0, pytest.approx(36.9, abs=0.1)]  # a third of a deviation below 2^-25
    assert "37 % of the gradients become 0 and" in told["says"]
    assert all(y < 1e-6 for _, y in told["curves"]["bf16"])
    fp16 = dict(map(tuple, told["curves"]["fp16"]))
    assert fp16[16] < 1e-4 < fp16[32]
