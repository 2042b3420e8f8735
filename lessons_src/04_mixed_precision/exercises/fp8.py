"""Exercise 4.4: a tensor in fp8 with one scale, so that its largest number becomes fp8's largest.

What a cast beyond the largest number gives, 448 or NaN, depends on torch's version; neither is
taken for granted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

from ..formats import limits

FP8 = torch.float8_e4m3fn
LARGEST = limits("e4m3")["largest"]
PLAIN = (0.5, -2.0, 1.0)
SMALL = (1e-4, -3e-4, 2e-4, 5e-5)


def reference(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return x in fp8 and its scale: x is the first divided by the second."""
    amax = x.abs().max().item()
    scale = LARGEST / amax if amax else 1.0
    return (x * scale).clamp(-LARGEST, LARGEST).to(FP8), scale


def check(student: Callable[..., Any]) -> Passed:
    """Scale a plain tensor, a small one, a large one, zeros."""
    _plain(student)
    for values in (SMALL, (30_000.0, -7.0, 1.0)):
        stored, scale = _pack(student, values)
        _judge(stored, scale, values)
    stored, scale = _pack(student, (0.0, 0.0))
    back = stored.float() / scale
    if not (back == 0).all():
        raise Wrong("zeros", _case((0.0, 0.0)), scale=f"{scale:g}", got=_list(back))
    stored, scale = _pack(student, SMALL)
    error = _error(stored, scale, SMALL)
    return Passed(
        (("largest relative error, %", round(100 * error, 2), 6.25, "% at most"),),
        "Three bits of mantissa: off by 1/16 of itself at most, where e4m3 has all its digits.",
    )


def _case(values: tuple[float, ...]) -> str:
    return f"x = [{', '.join(f'{v:g}' for v in values)}]"


def _list(x: torch.Tensor) -> str:
    return ", ".join(f"{v:g}" for v in x.float().flatten().tolist())


def _pack(student: Callable[..., Any], values: tuple[float, ...]) -> tuple[torch.Tensor, float]:
    """Call the answer, and see that it is a pair of an fp8 tensor and one number."""
    x, case = torch.tensor(values), _case(values)
    answer = ask(student, x, case=case)
    if answer is None:
        raise Wrong("none", case)
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
        raise Wrong("kind", case, got=type(answer).__name__)
    stored, scale = answer
    if not torch.equal(x, torch.tensor(values)):
        raise Wrong("changed", case, got=_list(x))
    if not isinstance(stored, torch.Tensor) or stored.dtype != FP8 or stored.shape != x.shape:
        what = type(stored).__name__
        if isinstance(stored, torch.Tensor):
            what = f"{str(stored.dtype).removeprefix('torch.')} of shape {list(stored.shape)}"
        raise Wrong("not_fp8", case, got=what)
    if isinstance(scale, torch.Tensor) and scale.numel() != 1:
        raise Wrong("many_scales", case, got=scale.numel())
    try:
        return stored, float(scale)
    except (TypeError, ValueError, OverflowError):
        raise Wrong("kind", case, got=type(scale).__name__) from None


def _plain(student: Callable[..., Any]) -> None:
    stored, scale = _pack(student, PLAIN)
    held, case = stored.float(), _case(PLAIN)
    facts = {"scale": f"{scale:g}", "got": _list(held)}
    if scale == 0 or not torch.tensor(scale).isfinite():
        raise Wrong("no_scale", case, **facts)
    if held.tolist() == list(PLAIN):
        raise Wrong("not_scaled", case, **facts)
    times, divided = (held * scale).tolist(), (held / scale).tolist()
    if _close(times, PLAIN) and not _close(divided, PLAIN):
        raise Wrong("inverted", case, **facts)
    positive = [v for v in PLAIN if v > 0]
    if abs(scale - LARGEST / max(positive)) < 1e-3:
        raise Wrong("no_abs", case, **facts)
    _judge(stored, scale, PLAIN)


def _judge(stored: torch.Tensor, scale: float, values: tuple[float, ...]) -> None:
    """Raise unless the largest is 448 and every number comes back as well as fp8 can."""
    held, case = stored.float(), _case(values)
    facts = {"scale": f"{scale:g}", "got": _list(held), "amax": f"{max(map(abs, values)):g}"}
    beyond = scale * max(map(abs, values))
    if beyond > LARGEST * 1.001:
        raise Wrong("beyond", case, beyond=f"{beyond:g}", **facts)
    if beyond < LARGEST * 0.999:
        raise Wrong("room", case, beyond=f"{beyond:g}", **facts)
    if held.isnan().any():
        raise Wrong("nan", case, **facts)
    want = (torch.tensor(values) * scale).clamp(-LARGEST, LARGEST).to(FP8).float()
    if not torch.equal(held, want):
        raise Wrong("cast_first", case, want=_list(want), **facts)


def _close(got: list[float], want: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= abs(b) / 16 for a, b in zip(got, want, strict=True))


def _error(stored: torch.Tensor, scale: float, values: tuple[float, ...]) -> float:
    x = torch.tensor(values)
    return ((stored.float() / scale - x).abs() / x.abs()).max().item()
