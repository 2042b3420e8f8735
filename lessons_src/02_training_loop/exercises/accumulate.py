"""Exercise 2.3: the gradient of a big batch, one micro-batch at a time.

The diagnosis runs on one weight w = 1 with loss w·x, so that a picture's gradient is its x, and a
sum of powers of ten says who is in it. The proof then compares all gradients of a small network
with those of the whole batch, in fp64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

from .returned import close, number_of

Batches = list[tuple[Tensor, Tensor]]
Loss = Callable[[Tensor, Tensor], Tensor]
CASES = (
    ((6,),),
    ((1, 4), (9, 15), (6, 7)),
    ((1, 10), (100, 1000), (10000,)),
    ((8,), (1, 3, 5, 7), (2, 2), (6, 4, 2, 9)),
)
SIZES = (16, 16, 8)


def reference(model: nn.Module, loss_fn: Loss, micro_batches: Batches) -> float:
    """Weigh each mean by its share of all pictures, and go backward at once."""
    count = sum(len(y) for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * (len(y) / count)
        loss.backward()
        total += loss.item()
    return total


def check(student: Callable[..., Any]) -> Passed:
    """One micro-batch, three even ones, uneven ones, and then a network in fp64."""
    for lists in CASES:
        _painted(student, lists)
    apart = _network(student)
    held = _held(student, CASES[2])
    return Passed(
        (("pictures whose activations were held at once, of 5", held, 2, ""),),
        f"Micro-batches of 16, 16 and 8 against 40 at once, in fp64: {apart:.0e} apart, relative.",
    )


def _mean(outputs: Tensor, labels: Tensor) -> Tensor:
    return outputs.flatten().mean()


def _one_weight(lists: Sequence[Sequence[float]]) -> tuple[nn.Linear, Batches]:
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    batches = [
        (torch.tensor(xs, dtype=torch.float64)[:, None], torch.zeros(len(xs)).long())
        for xs in lists
    ]
    return model, batches


def _painted(student: Callable[..., Any], lists: Sequence[Sequence[float]]) -> None:
    model, batches = _one_weight(lists)
    case = "micro-batches of " + ", ".join(_listed(xs) for xs in lists)
    facts = _facts(lists)
    returned = student(model, _mean, batches)
    if model.weight.item() != 1:
        raise Wrong("moved", case, got=number(model.weight.item()))
    if model.weight.grad is None:
        raise Wrong("no_backward", case)
    gradient, right = model.weight.grad.item(), sum(map(sum, lists)) / facts["total"]
    facts |= {"got": number(gradient), "want": number(right)}
    if not close(gradient, right):
        raise Wrong(_named(gradient, lists) or "gradient", case, **facts)
    loss = number_of(returned, case, total=facts["total"])
    if not close(loss, right):
        key = _named(loss, lists)
        raise Wrong(f"loss_{key}" if key in LOSS_KEYS else "loss_other", case,
                    **facts | {"got": number(loss)})  # fmt: skip
    if (held := _held(student, lists)) > facts["largest"]:
        raise Wrong("all_at_once", case, held=held, **facts)


LOSS_KEYS = ("mean_of_means", "last_only", "sum")


def _facts(lists: Sequence[Sequence[float]]) -> dict[str, Any]:
    sizes = [len(xs) for xs in lists]
    means = [sum(xs) / len(xs) for xs in lists]
    return {
        "k": len(lists),
        "total": sum(sizes),
        "sizes": ", ".join(map(str, sizes)),
        "means": ", ".join(map(number, means)),
        "last": sizes[-1],
        "first": sizes[0],
        "largest": max(sizes),
        "sum": number(sum(map(sum, lists))),
    }


def _named(got: float, lists: Sequence[Sequence[float]]) -> str:
    """The mistake whose number this is; those that give what is right here are no candidates."""
    k, total = len(lists), sum(map(len, lists))
    means = [sum(xs) / len(xs) for xs in lists]
    whole = sum(map(sum, lists))
    right = whole / total
    first, last = (means[i] * len(lists[i]) / total for i in (0, -1))
    candidates = {
        "mean_of_means": [sum(means) / k],
        "sum": [whole],
        "not_divided": [sum(means)],
        "by_micro_batches": [whole / k],
        "first_size": [sum(means) * len(lists[0]) / total],
        "last_only": [last, means[-1], means[-1] / k, sum(lists[-1])],
        "first_only": [first, means[0], means[0] / k, sum(lists[0])],
        "divided_twice": [right / k, right / total],
    }
    for key, values in candidates.items():
        if any(close(got, value) and not close(value, right) for value in values):
            return key
    return ""


def _held(student: Callable[..., Any], lists: Sequence[Sequence[float]]) -> int:
    """The most pictures whose activations autograd held at once."""
    model, batches = _one_weight(lists)
    held, most = 0, 0

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            nonlocal held, most
            # The last thing saved of a forward pass is one number a picture at most.
            self.tensor, self.pictures = tensor, tensor.shape[0] if tensor.dim() == 2 else 0
            self.pictures *= tensor.shape != model.weight.shape or not torch.equal(
                tensor, model.weight
            )
            held += self.pictures
            most = max(most, held)

        def __del__(self) -> None:
            nonlocal held
            held -= self.pictures

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        student(model, _mean, batches)
    return most


def _network(student: Callable[..., Any]) -> float:
    """Gradients of 16, 16 and 8 pictures against those of 40 at once; their relative distance."""
    generator = torch.Generator().manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).double()
    for p in model.parameters():
        p.data = torch.randn(p.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(sum(SIZES), 6, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (sum(SIZES),), generator=generator)
    F.cross_entropy(model(x), y).backward()
    whole = _gradients(model)
    model.zero_grad()
    student(model, F.cross_entropy, list(zip(x.split(SIZES), y.split(SIZES), strict=True)))
    apart = float((_gradients(model) - whole).norm() / whole.norm())
    if not apart < 1e-12:  # forty terms of like size, each rounded to 1e-16
        case = "a small network in fp64, micro-batches of 16, 16, 8 against 40 at once"
        raise Wrong("apart", case, apart=apart)
    return apart


def _gradients(model: nn.Module) -> Tensor:
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.flatten().clone() for part in parts])


def _listed(values: Sequence[float]) -> str:
    return "[" + ", ".join(map(number, values)) + "]"
