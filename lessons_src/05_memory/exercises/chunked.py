"""Exercise 5.3: cross-entropy a chunk of positions at a time, in value, gradient and bytes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointError
from torch.utils.checkpoint import checkpoint as torchs  # noqa: F401 (the solution uses it)

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong, innermost, stopped_here

from ..activation_checkpointing import saved_for_backward

IGNORED = -100
VOCABULARY, WIDTH = 64, 2
# words of the solution, and what stands in their place
COUNT, PART = "(labels != -100).sum()", "use_reentrant=False)"
MEAN, CHUNKS = {'"sum"': '"mean"'}, "len(labels.split(chunk))"
FULL = "len(labels) // chunk"

chunked_loss = solution("chunked_loss", globals())


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


@dataclass
class Outcome:
    """The loss; and if that is right, its gradients, bytes until backward, the largest tensor."""

    loss: float
    gradients: dict[str, torch.Tensor | None]
    kept: int = 0
    largest: int = 0


def case(text, chunk):
    """Labels (· for a position that is not trained on) and the chunk."""
    n, ignored = len(text), text.count("·")
    words = f"{n} position{'s' * (n > 1)}" + (f", {ignored} of them ignored" if ignored else "")
    dice = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, WIDTH, generator=dice)
    weight = torch.randn(VOCABULARY, WIDTH, generator=dice)
    labels = torch.tensor([IGNORED if letter == "·" else int(letter) for letter in text])
    return f"{words}, chunks of {chunk}", (hidden, weight, labels, chunk)


def run(answer, hidden, weight, labels, chunk):
    """Run forward and, if the loss is right, backward."""
    right = F.cross_entropy(hidden @ weight.T, labels).item()
    given = {"hidden": hidden.clone(), "weight": weight.clone(), "labels": labels.clone()}
    inputs = {"hidden": hidden.requires_grad_(), "weight": weight.requires_grad_()}
    with Largest() as seen, saved_for_backward(hidden, weight, labels) as saved:
        loss = answer(hidden, weight, labels, chunk)
        kept = saved()
        for name, now in {**inputs, "labels": labels}.items():
            if not torch.equal(now, given[name]):
                raise Wrong("changed", name=name)
        if loss is None:
            raise Wrong("none")
        if not isinstance(loss, torch.Tensor):
            raise Wrong("no_tensor", got=type(loss).__name__)
        if loss.numel() != 1:
            raise Wrong("many", got=list(loss.shape))
        if not alike(loss.item(), right, 1e-4):
            return Outcome(loss.item(), {})
        if not loss.requires_grad:
            raise Wrong("detached")
        try:
            loss.backward()
        except Exception as error:
            raise in_backward(error) from error
    gradients = {name: tensor.grad for name, tensor in inputs.items()}
    return Outcome(loss.item(), gradients, kept, seen.numel)


def in_backward(error):
    """Recognise a graph that is gone, and a function that changed by the time backward calls it."""
    told = stopped_here(error)
    if "a second time" in str(error):
        return Wrong("let_go")
    again = innermost(error).name not in ("", "backward") or isinstance(error, CheckpointError)
    return Wrong("second_call", **told.numbers) if again else told


def judge(got, want, hidden, weight, labels, chunk):
    """The loss first, then its gradients, the logits at once, and what is kept."""
    if not got.gradients:
        return False
    for name, mine in got.gradients.items():
        right = want.gradients[name]
        if mine is None:
            return Wrong("no_gradient", name=name)
        if not torch.allclose(mine, right, rtol=1e-4, atol=1e-6):
            return Wrong("gradient", name=name, times=f"{mine.norm() / right.norm():.3g}")
    n, most = len(labels), max(chunk * VOCABULARY, weight.numel(), hidden.numel())
    if got.largest > most:
        key = "whole_logits" if got.largest >= n * VOCABULARY else "pieces"
        return Wrong(key, largest=got.largest // VOCABULARY)
    # One chunk's logarithms; or both gradients with a few sums, where they are made in forward.
    room = 4 * max(chunk * VOCABULARY, weight.numel() + hidden.numel() + 16)
    if n > 2 * chunk and got.kept > room:
        return Wrong("keeps_all", got=got.kept, everything=n * VOCABULARY * 4)
    return True


def facts(got, want, hidden, weight, labels, chunk):
    count = int((labels != IGNORED).sum())
    return {
        "got": f"{got.loss:.4g}", "want": f"{want.loss:.4g}", "total": f"{want.loss * count:.4g}",
        "n": len(labels), "count": count, "positive": int((labels > 0).sum()),
        "chunks": -(-len(labels) // chunk),
    }  # fmt: skip


EXERCISE = Answer(
    chunked_loss,
    other="value_off",
    run=run,
    judge=judge,
    same=lambda a, b: alike(a.loss, b.loss, 1e-4),
    # from one position to sixteen; uneven chunks, ignored labels, a chunk with nothing in it
    cases=[
        case("3", 1),
        case("31425", 2),
        case("30·0··5", 3),
        case("···31·4", 3),
        case("3141592653589793", 4),
    ],
    mistakes=[
        ("sum", {f" / {COUNT}": ""}),
        ("mean_of_means", {**MEAN, COUNT: CHUNKS}),
        ("all_positions", {COUNT: "len(labels)"}),
        ("by_chunks", {COUNT: CHUNKS}),
        ("by_chunks", {COUNT: f"chunk / {CHUNKS}"}),
        ("sum_of_means", {**MEAN, f" / {COUNT}": ""}),
        ("by_rows", {**MEAN, PART: f"{PART} * len(rows)", COUNT: "len(labels)"}),
        ("overlap", {
            "hidden.split(chunk)": "(hidden[i : i + chunk] for i in range(len(labels)))",
            "labels.split(chunk)": "(labels[i : i + chunk] for i in range(len(labels)))"}),
        ("means_over_count", MEAN),
        ("zero_skipped", {"labels != -100": "labels > 0"}),
        ("last_missing", {"labels.split(chunk)": f"labels.split(chunk)[: {FULL}]"}),
        ("last_missing", {"labels.split(chunk)": f"labels.split(chunk)[: {FULL}]",
                          "(labels !=": f"(labels[: {FULL} * chunk] !="}),
        ("only_last", {**MEAN, "total + torchs": "torchs", f" / {COUNT}": ""}),
        Mistake("nan", {**MEAN, PART: f"{PART} * (targets != -100).sum()"},
                when=lambda got: got.loss != got.loss),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (
            ("kept until backward, of 16 positions", got[-1].kept, "", "bytes"),
            ("most logits at once", got[-1].largest // VOCABULARY, 4, "positions"),
        ),
        "Loss and gradients are those of all logits at once.",
    ),
)  # fmt: skip
