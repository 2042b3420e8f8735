"""Exercise 2.4: a score that is exact for uneven batches, and leaves the model as it was.

The model is a table of logits that notes in which mode it was asked, and with a gradient or
without. Its losses and hits are known for each picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.learn.checking import Passed, Wrong

from .returned import close, number_of

Batches = list[tuple[Tensor, Tensor]]
CASES = ((1,), (2, 2, 2), (4, 4, 1), (3, 1, 4, 1))
ROUNDED = 1e-6  # a mean may be taken in fp32
# Right or wrong, and by how far the label's logit stands above or below the two others.
MARGINS = (2.0, -1.0, 0.5, 3.0, -2.0, 1.0, -0.5, 2.5, -3.0)


def reference(model: nn.Module, batches: Batches) -> tuple[float, float]:
    """Sums and counts over all batches; the mode is put back."""
    mode = model.training
    model.eval()
    loss, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in batches:
            logits = model(x)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += int((logits.argmax(1) == y).sum())
            count += len(y)
    model.train(mode)
    return loss / count, hits / count


class Watched(nn.Module):
    """Logits of three classes from one number a picture; remembers how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.train_mode = 0
        self.with_graph = 0

    def forward(self, x: Tensor) -> Tensor:
        self.train_mode += self.training
        self.with_graph += torch.is_grad_enabled()
        return x * self.weight


def check(student: Callable[..., Any]) -> Passed:
    """One picture, three even batches, then uneven ones; the model in either mode."""
    for sizes in CASES:
        for training in (True, False):
            _one(student, sizes, training)
    return Passed(note="Exact for 4, 4, 1 and for 3, 1, 4, 1 pictures, and the mode is put back.")


def _one(student: Callable[..., Any], sizes: Sequence[int], training: bool) -> None:
    mode = "training" if training else "evaluation"
    case = f"batches of {', '.join(map(str, sizes))}, the model in {mode} mode"
    model, batches = Watched().train(training), _batches(sizes)
    with torch.enable_grad():
        returned = student(model, batches)
    loss, accuracy = _pair(returned, case)
    if model.train_mode:
        raise Wrong("train_mode", case, asked=model.train_mode)
    if model.with_graph:
        raise Wrong("with_graph", case, asked=model.with_graph)
    _numbers(loss, accuracy, sizes, case)
    if model.training != training:
        raise Wrong("left_in_eval" if training else "left_in_train", case)


def _pair(returned: Any, case: str) -> tuple[float, float]:
    if returned is None:
        raise Wrong("none", case)
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        what = f"{len(returned)} things" if isinstance(returned, (tuple, list)) else "one thing"
        raise Wrong("no_pair", case, got=what)
    return number_of(returned[0], case), number_of(returned[1], case)


def _batches(sizes: Sequence[int]) -> Batches:
    rows, labels = [], []
    for i, margin in enumerate(MARGINS[: sum(sizes)]):
        row = torch.zeros(3, dtype=torch.float64)
        row[i % 3] = margin
        rows.append(row)
        labels.append(i % 3)
    x, y = torch.stack(rows), torch.tensor(labels)
    return list(zip(x.split(list(sizes)), y.split(list(sizes)), strict=True))


def _numbers(loss: float, accuracy: float, sizes: Sequence[int], case: str) -> None:
    batches = _batches(sizes)
    losses = [F.cross_entropy(x, y, reduction="none").tolist() for x, y in batches]
    hits = [(x.argmax(1) == y).double().tolist() for x, y in batches]
    for what, got, parts in (("loss", loss, losses), ("accuracy", accuracy, hits)):
        total, rows, right = sum(map(sum, parts)), sum(sizes), sum(map(sum, parts)) / sum(sizes)
        if close(got, right, ROUNDED):
            continue
        facts = {"what": what, "got": got, "want": right, "total": total, "rows": rows}
        facts |= {"sizes": ", ".join(map(str, sizes)), "last": sizes[-1], "batches": len(sizes)}
        other = sum(map(sum, hits if what == "loss" else losses)) / rows
        if close(got, other, ROUNDED):
            raise Wrong("swapped", case, **facts)
        for key, value in _candidates(parts).items():
            if close(got, value, ROUNDED) and not close(value, right, ROUNDED):
                raise Wrong(key, case, **facts)
        raise Wrong("other", case, **facts)


def _candidates(parts: list[list[float]]) -> dict[str, float]:
    """What known mistakes give."""
    means = [sum(part) / len(part) for part in parts]
    total, rows = sum(map(sum, parts)), sum(map(len, parts))
    return {
        "mean_of_means": sum(means) / len(means),
        "last_batch": means[-1],
        "first_batch": means[0],
        "sum": total,
        "sum_of_means": sum(means),
        "by_batches": total / len(parts),
        "full_batches": total / (len(parts) * len(parts[0])),
        "percent": 100 * total / rows,
        "means_by_rows": sum(means) / rows,
    }
