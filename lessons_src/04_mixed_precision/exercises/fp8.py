"""Exercise 4.4: a tensor in fp8 with one scale, so that its largest number becomes fp8's largest.

What a cast beyond the largest number gives, 448 or NaN, depends on torch's version; neither is
taken for granted here.
"""

import math

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..formats import limits

FP8 = torch.float8_e4m3fn
LARGEST = limits("e4m3")["largest"]
SCALE, SCALED = "448 / amax if amax else 1.0", "(x * scale)"  # words of the solution

to_fp8 = solution("to_fp8", globals())


def listed(values):
    """The numbers of a tensor, or others."""
    return ", ".join(f"{v:g}" for v in torch.as_tensor(values).float().flatten().tolist())


def run(answer, values):
    """What the answer stored, in fp32, and its scale."""
    x = torch.tensor(values)
    found = answer(x)
    if found is None:
        raise Wrong("none")
    if not (isinstance(found, (tuple, list)) and len(found) == 2):
        raise Wrong("kind", got=type(found).__name__)
    stored, scale = found
    if not torch.equal(x, torch.tensor(values)):
        raise Wrong("changed", got=listed(x))
    if not isinstance(stored, torch.Tensor):
        raise Wrong("not_fp8", got=type(stored).__name__)
    if stored.dtype != FP8 or stored.shape != x.shape:
        kind = str(stored.dtype).removeprefix("torch.")
        raise Wrong("not_fp8", got=f"{kind} of shape {list(stored.shape)}")
    if isinstance(scale, torch.Tensor) and scale.numel() != 1:
        raise Wrong("many_scales", got=scale.numel())
    try:
        return stored.float(), float(scale)
    except (TypeError, ValueError, OverflowError):
        raise Wrong("kind", got=type(scale).__name__) from None


def beyond(scale, values):
    """What the largest number becomes."""
    return scale * max(map(abs, values))


def cast(scale, values):
    """The numbers as they should be stored with this scale."""
    return (torch.tensor(values) * scale).clamp(-LARGEST, LARGEST).to(FP8).float()


def judge(got, values):
    """Whether the largest is 448, and all come back as well as fp8 can; zeros, as zeros."""
    held, scale = got
    if not any(values):
        return bool((held / scale == 0).all())
    near = abs(beyond(scale, values) / LARGEST - 1) <= 0.001
    return near and torch.equal(held, cast(scale, values))


def inverted(got, values):
    """Whether x comes back by multiplying, and not by dividing."""
    held, scale = got
    x = torch.tensor(values)
    times, divided = ((y - x).abs() <= x.abs() / 16 for y in (held * scale, held / scale))
    return bool(times.all() and not divided.all())


def facts(got, values):
    held, scale = got
    return {
        "scale": f"{scale:g}", "got": listed(held if any(values) else held / scale),
        "amax": f"{max(map(abs, values)):g}", "beyond": f"{beyond(scale, values):g}",
        "want": listed(cast(scale, values)),
    }  # fmt: skip


def passed(got):
    """The largest relative error of the small numbers."""
    (held, scale), x = got[1], torch.tensor(SMALL)
    error = ((held / scale - x).abs() / x.abs()).max().item()
    return Passed(
        (("largest relative error, %", round(100 * error, 2), 6.25, "% at most"),),
        "Three bits of mantissa: off by 1/16 of itself at most, where e4m3 has all its digits.",
    )


PLAIN, SMALL = (0.5, -2.0, 1.0), (1e-4, -3e-4, 2e-4, 5e-5)
EXERCISE = Answer(
    to_fp8,
    other="cast_first",
    run=run,
    judge=judge,
    cases=[
        (f"x = [{listed(values)}]", (values,))
        for values in (PLAIN, SMALL, (30_000.0, -7.0, 1.0), (0.0, 0.0))
    ],
    mistakes=[
        Mistake("zeros", {SCALE: "448 / x.abs().max()"}, when=lambda values: not any(values)),
        Mistake("no_scale", {SCALE: "0.0"},
                when=lambda got: got[1] == 0 or not math.isfinite(got[1])),
        Mistake("not_scaled", {SCALE: "1.0"},
                when=lambda got, values: got[0].tolist() == list(values)),
        Mistake("inverted", {", scale": ", 1 / scale"}, when=inverted),
        Mistake("no_abs", {"x.abs()": "x"},
                when=lambda got, values: abs(got[1] - LARGEST / max(values)) < 1e-3),
        Mistake("beyond", {"448 / amax": "57344 / amax"},
                when=lambda got, values: beyond(got[1], values) > LARGEST * 1.001),
        Mistake("room", {"448 / amax": "240 / amax"},
                when=lambda got, values: beyond(got[1], values) < LARGEST * 0.999),
        Mistake("nan", {SCALED: f"{SCALED}.where(x.abs() >= 1e-4, torch.nan)"},
                when=lambda got: bool(got[0].isnan().any())),
        ("cast_first", {SCALED: "(x.to(torch.float8_e4m3fn).float() * scale)"}),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
