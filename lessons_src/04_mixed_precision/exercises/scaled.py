"""Exercise 4.2: unscale, skip or step, and keep the scale: a GradScaler's step by hand.

Painted steps come first: weights at 0, a rate of 1, so that the weight after a step is minus what
the optimizer saw. Then forty steps of AdamW with infinities among them, beside torch's GradScaler.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

Weights = list[torch.nn.Parameter]
Answer = tuple[float, int]
INF, NAN = math.inf, math.nan
SCALE, INTERVAL = 8.0, 3
SEED = 4


def reference(
    weights: Sequence[torch.Tensor],
    optimizer: torch.optim.Optimizer,
    scale: float,
    good: int,
    growth_interval: int,
) -> Answer:
    """Divide by the scale, step if all is finite, and return the next scale and count."""
    gradients = [w.grad for w in weights if w.grad is not None]
    finite = all(bool(g.isfinite().all()) for g in gradients)
    for gradient in gradients:
        gradient.div_(scale)
    if not finite:
        return scale / 2, 0
    optimizer.step()
    return (scale * 2, 0) if good + 1 == growth_interval else (scale, good + 1)


def check(student: Callable[..., Any]) -> Passed:
    """Take good steps, count them, meet infinities in every place, and run beside GradScaler."""
    _good_step(student)
    _growth(student)
    _bad_steps(student)
    _after_momentum(student)
    _beyond_fp16(student)
    _without_gradient(student)
    steps, skipped = _beside_torch(student)
    rows = (("steps equal to GradScaler's", steps, 40, ""), ("of them skipped", skipped, 10, ""))
    return Passed(rows, "The same scale and the same weights, bit for bit.")


def _weights(*gradients: tuple[float, ...] | None, scale: float = SCALE) -> Weights:
    """Weights at 0 with scaled gradients."""
    weights = []
    for gradient in gradients:
        weights.append(torch.nn.Parameter(torch.zeros(len(gradient or (0,)))))
        if gradient is not None:
            weights[-1].grad = torch.tensor(gradient) * scale
    return weights


def _call(
    student: Callable[..., Any], weights: Weights, case: str, good: int = 0, scale: float = SCALE,
    optimizer: torch.optim.Optimizer | None = None,
) -> Answer:  # fmt: skip
    optimizer = optimizer or torch.optim.SGD(weights, lr=1.0)
    answer = ask(student, weights, optimizer, scale, good, INTERVAL, case=case)
    if answer is None:
        raise Wrong("none", case)
    if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
        raise Wrong("kind", case, got=type(answer).__name__)
    try:
        return float(answer[0]), int(answer[1])
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise Wrong("kind", case, got="pair of other things than numbers") from None


def _values(weights: Weights) -> list[float]:
    return [v for w in weights for v in w.detach().tolist()]


def _words(values: Sequence[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)


def _good_step(student: Callable[..., Any]) -> None:
    case = "one weight at 0, gradient 3, scale 8, lr 1"
    weights = _weights((3.0,))
    scale, good = _call(student, weights, case)
    (moved,) = _values(weights)
    key = {
        -24.0: "still_scaled", -192.0: "multiplied", 0.0: "no_step", -0.375: "divided_twice",
        -6.0: "two_steps", 3.0: "uphill",
    }.get(moved)  # fmt: skip
    if key or moved != -3:
        raise Wrong(key or "step", case, got=f"{moved:g}")
    if scale > SCALE:
        raise Wrong("grows_at_once", case, scale=f"{scale:g}", interval=INTERVAL)
    if (scale, good) != (SCALE, 1):
        raise Wrong("count", case, scale=f"{scale:g}", good=good)


def _growth(student: Callable[..., Any]) -> None:
    scale, good, seen = SCALE, 0, []
    case = f"7 good steps, growth_interval {INTERVAL}, scale 8 at first"
    for _ in range(7):
        scale, good = _call(student, _weights((1.0,), scale=scale), case, good, scale)
        seen.append(scale)
    if seen == [8, 8, 16, 16, 16, 32, 32]:
        return
    facts = {"seen": _words(seen), "interval": INTERVAL}
    if seen == [8] * 7:
        raise Wrong("never_grows", case, **facts)
    if seen[:3] == [8, 8, 8] and seen[3] == 16:
        raise Wrong("grows_late", case, **facts)
    if seen[:2] == [8, 16]:
        raise Wrong("grows_early", case, **facts)
    if seen[2:5] in ([16, 32, 64], [16, 16, 16]):
        raise Wrong("count_goes_on", case, **facts)
    raise Wrong("growth", case, **facts)


def _bad_steps(student: Callable[..., Any]) -> None:
    """An infinity or NaN first, second, anywhere: which of them does the answer see?"""
    plans: dict[str, tuple[tuple[float, ...], ...]] = {
        "inf": ((INF,), (1.0,)), "-inf": ((-INF,), (1.0,)), "nan": ((NAN,), (1.0,)),
        "second": ((1.0,), (INF,)), "element": ((1.0, 2.0, INF, 3.0), (1.0,)),
    }  # fmt: skip
    moved, answers = {}, {}
    for name, plan in plans.items():
        weights = _weights(*plan)
        case = f"gradients {' | '.join(_words(g) for g in plan)}, scale 8"
        answers[name] = case, _call(student, weights, case, good=1)
        moved[name] = any(_values(weights)), _words(_values(weights))
    for name, (went, values) in moved.items():
        if went:
            which = "second" if name == "second" else "first"
            raise Wrong(_blind(name, moved), answers[name][0], got=values, which=which)
    case, (scale, good) = answers["inf"]
    facts = {"scale": f"{scale:g}", "good": good}
    if scale == SCALE:
        raise Wrong("no_backoff", case, **facts)
    if scale > SCALE:
        raise Wrong("wrong_way", case, **facts)
    if scale != SCALE / 2:
        raise Wrong("backoff", case, **facts)
    if good:
        raise Wrong("skip_counts" if good == 2 else "count_kept", case, **facts)


def _blind(name: str, moved: dict[str, tuple[bool, str]]) -> str:
    """Which infinity an answer did not see, by those that it saw."""
    if all(went for went, _ in moved.values()):
        finite = all("inf" not in words and "nan" not in words for _, words in moved.values())
        return "replaced" if finite else "stepped"
    if moved["inf"][0] and not moved["nan"][0]:
        return "only_nan"
    if moved["nan"][0] and not moved["inf"][0]:
        return "only_infinity"
    if name == "-inf":
        return "only_plus"
    return "one_weight" if name == "second" or moved["inf"][0] else "one_element"


def _after_momentum(student: Callable[..., Any]) -> None:
    """A skipped step calls no optimizer: one that is fed zeros moves on by its momentum."""
    case = "SGD with momentum 0.9: a step with gradient 1, then one with inf"
    weights = _weights((1.0,))
    optimizer = torch.optim.SGD(weights, lr=1.0, momentum=0.9)
    _call(student, weights, case, optimizer=optimizer)
    weights[0].grad = torch.tensor([INF])
    _call(student, weights, case, good=1, optimizer=optimizer)
    (value,) = _values(weights)
    if value != -1:
        raise Wrong("zero_step", case, got=f"{value:g}")


def _beyond_fp16(student: Callable[..., Any]) -> None:
    """Gradients of fp32 weights are fp32: 80,000 is a number like any other."""
    case = "gradient 10000, scale 8: scaled 80000, in fp32"
    weights = _weights((10_000.0,))
    scale, _ = _call(student, weights, case)
    if _values(weights) != [-10_000.0] or scale != SCALE:
        raise Wrong("too_strict", case, got=_words(_values(weights)))


def _without_gradient(student: Callable[..., Any]) -> None:
    case = "two weights, of which the second has no gradient"
    weights = _weights((1.0,), None)
    try:
        _call(student, weights, case)
    except Wrong as wrong:
        if wrong.numbers.get("of_none"):
            raise Wrong("no_gradient", case) from wrong
        raise
    if _values(weights) != [-1.0, 0.0]:
        raise Wrong("no_gradient", case)


def _beside_torch(student: Callable[..., Any]) -> tuple[int, int]:
    """Forty steps of AdamW, ten of them with an infinity, beside torch's own."""
    draw, bad = random.Random(SEED), set(random.Random(SEED).sample(range(40), 10))
    pair = _weights((0.0, 0.0), (0.0,)), _weights((0.0, 0.0), (0.0,))
    mine, theirs = (torch.optim.AdamW(weights, lr=0.1) for weights in pair)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=INTERVAL)
    scaler.scale(torch.ones(()))  # it makes its tensors at the first call
    scale, good = SCALE, 0
    for step in range(40):
        values = [[draw.gauss(0, 1), draw.gauss(0, 1)], [draw.gauss(0, 1)]]
        for weights in pair:
            for w, value in zip(weights, values, strict=True):
                w.grad = torch.tensor(value) * (INF if step in bad else scale)
        case = f"step {step + 1} of 40 with AdamW, scale {scale:g}"
        scale, good = _call(student, pair[0], case, good, scale, mine)
        scaler.step(theirs)
        scaler.update()
        if scale != scaler.get_scale() or not all(map(torch.equal, *pair)):
            got, want = _words(_values(pair[0])), _words(_values(pair[1]))
            raise Wrong("apart", case, scale=f"{scale:g}", torch=f"{scaler.get_scale():g}", got=got,
                        want=want, step=step + 1)  # fmt: skip
    return 40, len(bad)
