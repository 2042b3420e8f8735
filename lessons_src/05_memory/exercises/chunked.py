"""Exercise 5.3: cross-entropy a chunk of positions at a time, in value, gradient and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointError, checkpoint

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong, innermost, stopped_here

from ..activation_checkpointing import saved_for_backward

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], Any]
IGNORED = -100
VOCABULARY, WIDTH = 64, 2
# Labels (· for a position that is not trained on) and the chunk
CASES = (("3", 1), ("31425", 2), ("30·0··5", 3), ("···31·4", 3), ("3141592653589793", 4))


def reference(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunk: int
) -> torch.Tensor:
    """The mean loss; of the logits, those of `chunk` positions are there at a time."""

    def summed(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

    total = hidden.new_zeros(())
    for rows, targets in zip(hidden.split(chunk), labels.split(chunk), strict=True):
        total = total + checkpoint(summed, rows, targets, use_reentrant=False)
    return total / (labels != IGNORED).sum()


class Largest(TorchDispatchMode):
    """Remember how many numbers the largest tensor holds that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            # not the state of the random numbers, which checkpoint puts aside
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                self.numel = max(self.numel, tensor.numel())
        return out


def check(student: Loss) -> Passed:
    """From one position to sixteen; uneven chunks, ignored labels, a chunk with nothing in it."""
    for text, chunk in CASES:
        numbers = _one(student, text, chunk)
    kept, largest, limit = numbers
    rows = (
        ("kept until backward, of 16 positions", kept, "", "bytes"),
        ("most logits at once", largest // VOCABULARY, limit // VOCABULARY, "positions"),
    )
    return Passed(rows, "Loss and gradients are those of all logits at once.")


def _inputs(text: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(0)
    hidden = torch.randn(len(text), WIDTH, generator=dice)
    weight = torch.randn(VOCABULARY, WIDTH, generator=dice)
    labels = torch.tensor([IGNORED if letter == "·" else int(letter) for letter in text])
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def _one(student: Loss, text: str, chunk: int) -> tuple[int, int, int]:
    n, ignored = len(text), text.count("·")
    case = f"{n} position{'s' * (n > 1)}" + (f", {ignored} of them ignored" if ignored else "")
    case += f", chunks of {chunk}"
    hidden, weight, labels = _inputs(text)
    with torch.no_grad():
        losses = F.cross_entropy(hidden @ weight.T, labels, reduction="none")
    with Largest() as seen, saved_for_backward(hidden, weight, labels) as saved:
        loss = ask(student, hidden, weight, labels, chunk, case=case)
        kept = saved()
        _value(loss, losses, labels, chunk, case)
        try:
            loss.backward()
        except Exception as error:
            raise _in_backward(error, case) from error
    _gradients(hidden, weight, text, case)
    limit = max(chunk * VOCABULARY, weight.numel(), hidden.numel())
    facts = {"n": n, "chunk": chunk, "vocabulary": VOCABULARY, "got": kept}
    if seen.numel > limit:
        key = "whole_logits" if seen.numel >= n * VOCABULARY else "pieces"
        raise Wrong(key, case, largest=seen.numel // VOCABULARY, **facts)
    everything = n * VOCABULARY * 4
    # One chunk's logarithms; or both gradients with a few sums, where they are made in forward.
    room = 4 * max(chunk * VOCABULARY, weight.numel() + hidden.numel() + 16)
    if n > 2 * chunk and kept > room:
        raise Wrong("keeps_all", case, everything=everything, **facts)
    return kept, seen.numel, chunk * VOCABULARY


def _in_backward(error: Exception, case: str) -> Wrong:
    """Recognise a graph that is gone, and a function that changed by the time backward calls it."""
    told = stopped_here(error, case)
    if "a second time" in str(error):
        return Wrong("let_go", case)
    again = innermost(error).name not in ("", "backward") or isinstance(error, CheckpointError)
    return Wrong("second_call", case, **told.numbers) if again else told


def _value(loss: Any, losses: torch.Tensor, labels: torch.Tensor, chunk: int, case: str) -> None:
    if loss is None:
        raise Wrong("none", case)
    if not isinstance(loss, torch.Tensor):
        raise Wrong("no_tensor", case, got=type(loss).__name__)
    if loss.numel() != 1:
        raise Wrong("many", case, got=list(loss.shape))
    want = float(losses.sum() / (labels != IGNORED).sum())
    got = float(loss.detach())
    if not math.isclose(got, want, rel_tol=1e-4):
        key = _name(got, losses, labels, chunk)
        total = float(losses.sum())
        seen: dict[str, Any] = {
            "count": int((labels != IGNORED).sum()),
            "n": len(labels),
            "chunk": chunk,
            "positive": int((labels > 0).sum()),
        }
        seen |= {"chunks": -(-len(labels) // chunk), "total": f"{total:.4g}"}
        raise Wrong(key, case, got=f"{got:.4g}", want=f"{want:.4g}", **seen)
    if not loss.requires_grad:
        raise Wrong("detached", case)


def _name(got: float, losses: torch.Tensor, labels: torch.Tensor, chunk: int) -> str:
    """Name a wrong value by the way it comes about."""
    real = labels != IGNORED
    count, total, chunks = int(real.sum()), float(losses.sum()), -(-len(labels) // chunk)
    parts = losses.split(chunk)
    sums = [float(part.sum()) for part in parts]
    counts = [int(part.sum()) for part in real.split(chunk)]
    means = [a / b if b else math.nan for a, b in zip(sums, counts, strict=True)]
    full = len(labels) // chunk * chunk
    ways = {
        "sum": total,
        "mean_of_means": sum(means) / chunks,
        "mean_of_full_means": sum(m for m in means if m == m) / max(1, sum(m == m for m in means)),
        "all_positions": total / len(labels),
        "by_chunks": total / chunks,
        "sum_of_means": sum(means),
        "by_rows": sum(m * len(part) for m, part in zip(means, parts, strict=True)) / len(labels),
        "overlap": sum(float(losses[i : i + chunk].sum()) for i in range(len(labels))) / count,
        "means_over_count": sum(means) / count,
        "zero_skipped": total / max(1, int((labels > 0).sum())),
        "chunk_each": sum(a / chunk for a in sums) / chunks,
        "only_last": means[-1],
    }
    if chunks > 1:
        ways["last_missing"] = float(losses[:full].sum()) / max(1, int(real[:full].sum()))
        ways["last_of_sum"] = sum(sums[:-1]) / count
    if math.isnan(got):
        return "nan"
    for name, value in ways.items():
        if math.isclose(got, value, rel_tol=1e-4):
            return {
                "mean_of_full_means": "mean_of_means",
                "chunk_each": "by_chunks",
                "last_of_sum": "last_missing",
            }.get(name, name)
    return "value_off"


def _gradients(hidden: torch.Tensor, weight: torch.Tensor, text: str, case: str) -> None:
    other_hidden, other_weight, labels = _inputs(text)
    F.cross_entropy(other_hidden @ other_weight.T, labels).backward()
    for name, mine, right in (
        ("hidden", hidden.grad, other_hidden.grad),
        ("weight", weight.grad, other_weight.grad),
    ):
        if mine is None:
            raise Wrong("no_gradient", case, name=name)
        assert right is not None
        if not torch.allclose(mine, right, rtol=1e-4, atol=1e-6):
            times = float(mine.norm() / right.norm())
            raise Wrong("gradient", case, name=name, times=f"{times:.3g}")
