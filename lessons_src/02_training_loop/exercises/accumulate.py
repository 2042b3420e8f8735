"""Exercise 2.3: the gradient of a big batch, one micro-batch at a time.

The diagnosis runs on one weight w = 1 with loss w·x, so that a picture's gradient is its x, and a
sum of powers of ten says who is in it. The proof then compares all gradients of a small network
with those of the whole batch, in fp64.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.learn.alike import alike, shortened
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import told_apart, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .returned import FP32, close, number_of

CASES = (
    ((6,),),
    ((1, 10), (100, 1000), (10000,)),  # before even ones, where an unweighted gradient is right
    ((1, 4), (9, 15), (6, 7)),
    ((8,), (1, 3, 5, 7), (2, 2), (6, 4, 2, 9)),
)
SIZES = (16, 16, 8)
# words of the solution
WEIGHT, FORWARD, ADD = "(len(y) / count)", "loss = loss_fn", "total += loss.item()"
EACH = (WEIGHT, "1", "1 / len(micro_batches)", "len(y)")

accumulate = solution("accumulate", globals())


@dataclass
class Seen:
    """The one weight and its gradient, the loss, and the most pictures that autograd held."""

    weight: float = 1.0
    gradient: float | None = None
    loss: float | Wrong = 0.0
    held: int = 0
    asked: int = 0  # how often the loss function was called
    apart: float = 0.0  # of a network's gradients from those of the whole batch, relative
    passes: int = 0  # of the network, forward
    in_eval: int = 0  # of these, in evaluation mode
    left_in_eval: bool = False
    changed: bool = False  # the list of micro-batches


class Counted(nn.Module):
    """A layer that changes nothing, and counts passes as batch norm does, in either mode."""

    def __init__(self):
        super().__init__()
        self.passes = self.in_eval = 0

    def forward(self, x):
        self.passes += 1
        self.in_eval += not self.training
        return x


def mean(outputs, labels):
    """A loss that is the output itself."""
    return outputs.flatten().mean()


def run(answer, lists):
    """Accumulate the gradient of one weight; without lists, of a network."""
    if lists is None:
        return _network(answer)
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    batches, as_given = _batches(lists), _batches(lists)
    seen = Seen()

    def asked_mean(outputs, labels):
        seen.asked += 1
        return mean(outputs, labels)

    with torch.autograd.graph.saved_tensors_hooks(_counting(seen, model.weight), _kept_tensor):
        returned = answer(model, asked_mean, batches)
    seen.weight, seen.changed = model.weight.item(), not alike(batches, as_given)
    if model.weight.grad is not None:
        seen.gradient = model.weight.grad.item()
    try:
        seen.loss = number_of(returned)
    except Wrong as wrong:  # told once the gradient is right
        seen.loss = wrong
    return seen


def _batches(lists):
    return [
        (torch.tensor(xs, dtype=torch.float64)[:, None], torch.zeros(len(xs)).long())
        for xs in lists
    ]


def _counting(seen, weight):
    """What autograd keeps, with a count of the pictures in it."""
    held = 0

    class Kept:
        def __init__(self, tensor):
            nonlocal held
            # The last thing saved of a forward pass is one number a picture at most.
            self.tensor, self.pictures = tensor, tensor.shape[0] if tensor.dim() == 2 else 0
            self.pictures *= tensor.shape != weight.shape or not torch.equal(tensor, weight)
            held += self.pictures
            seen.held = max(seen.held, held)

        def __del__(self):
            nonlocal held
            held -= self.pictures

    return Kept


def _kept_tensor(kept):
    return kept.tensor


def _network(answer):
    """Gradients of 16, 16 and 8 pictures against those of 40 at once, and how the model ran."""
    generator = torch.Generator().manual_seed(5)
    counted = Counted()
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), counted, nn.Linear(8, 3)).double()
    for p in model.parameters():
        p.data = torch.randn(p.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(sum(SIZES), 6, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (sum(SIZES),), generator=generator)
    F.cross_entropy(model(x), y).backward()
    whole = _gradients(model)
    model.zero_grad()
    counted.passes = 0
    answer(model, F.cross_entropy, list(zip(x.split(SIZES), y.split(SIZES), strict=True)))
    off = float((_gradients(model) - whole).norm() / whole.norm())
    left = not model.training
    return Seen(apart=off, passes=counted.passes, in_eval=counted.in_eval, left_in_eval=left)


def _gradients(model):
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([part.flatten().clone() for part in parts])


def same(a, b):
    """Whether the gradients agree."""
    return None not in (a.gradient, b.gradient) and close(a.gradient, b.gradient)


def judge(got, want, lists):
    """First the gradient, then the loss, and then what was held for them."""
    if lists is None:  # forty terms of like size, each rounded to 1e-16
        if got.apart >= 1e-12:
            return Wrong("rounded" if got.apart < FP32 else "apart", apart=got.apart)
        if got.in_eval:
            return Wrong("eval_inside")
        if got.left_in_eval:
            return Wrong("eval_left")
        many = Wrong("passes", passes=got.passes, micro=len(SIZES))
        return got.passes == len(SIZES) or many
    if got.weight != 1:
        return Wrong("moved", got=words(got.weight))
    if got.gradient is None:
        return Wrong("no_backward")
    if not same(got, want) and not got.asked:
        return Wrong("own_loss")
    if not same(got, want):
        return False
    if isinstance(got.loss, Wrong):
        return got.loss
    if not close(got.loss, want.loss, FP32):
        return _wrong_loss(got.loss, want.loss, lists)
    if got.changed:
        return Wrong("changed")
    return got.held <= max(map(len, lists)) or Wrong("all_at_once", held=got.held)


def _wrong_loss(loss, right, lists):
    got, want = words(loss), words(right)
    if got == want:
        got, want = told_apart(loss, right)
    return Wrong(_loss_key(loss, right, lists), got=got, want=want)


def _loss_key(loss, right, lists):
    k, total, last = len(lists), sum(map(len, lists)), sum(lists[-1])
    means = [sum(xs) / len(xs) for xs in lists]
    known = {
        "loss_mean_of_means": [sum(means) / k],
        "loss_added": [sum(means)],
        "loss_sum": [sum(map(sum, lists))],
        "loss_last_only": [last / total, means[-1], means[-1] / k, last],
    }
    other = "loss_rounded" if shortened(loss, right) else "loss_other"
    return next(
        (key for key, some in known.items() if any(close(loss, value, FP32) for value in some)),
        other,
    )


def facts(got, want, lists):
    """The gradient, and the micro-batches."""
    if lists is None:
        return {}
    sizes = [len(xs) for xs in lists]
    return {
        "got": "" if got.gradient is None else words(got.gradient), "want": words(want.gradient),
        "k": len(lists), "total": sum(sizes), "sum": words(sum(map(sum, lists))),
        "means": words([sum(xs) / len(xs) for xs in lists]),
        "sizes": words(sizes), "first": sizes[0], "largest": max(sizes),
    }  # fmt: skip


def passed(got):
    """The case with uneven micro-batches, and the network."""
    return Passed(
        (("pictures whose activations were held at once, of 5", got[1].held, 2, ""),),
        "Micro-batches of 16, 16 and 8 against 40 at once, in fp64:"
        f" {got[-1].apart:.0e} apart, relative.",
    )


EXERCISE = Answer(
    accumulate,
    run=run,
    judge=judge,
    same=same,
    cases=[
        *(
            ("micro-batches of " + ", ".join(f"[{words(xs)}]" for xs in lists), (lists,))
            for lists in CASES
        ),
        ("a small network in fp64, micro-batches of 16, 16, 8 against 40 at once", (None,)),
    ],
    mistakes=[
        ("mean_of_means", {WEIGHT: "(1 / len(micro_batches))"}),
        ("sum", {WEIGHT: "len(y)"}),
        ("not_divided", {WEIGHT: "1"}),
        ("by_micro_batches", {WEIGHT: "(len(y) / len(micro_batches))"}),
        ("first_size", {WEIGHT: "(len(micro_batches[0][1]) / count)"}),
        *(
            ("last_only", {FORWARD: f"model.zero_grad()\n        {FORWARD}", WEIGHT: f"({each})"})
            for each in EACH
        ),
        *(("first_only", {ADD: f"{ADD}\n        break", WEIGHT: f"({each})"}) for each in EACH),
        ("divided_twice", {WEIGHT: f"{WEIGHT} / len(micro_batches)"}),
        ("divided_twice", {WEIGHT: f"{WEIGHT} / count"}),
        Mistake(
            "rounded",
            {WEIGHT: "torch.tensor(len(y) / count)"},
            when=lambda got, want: close(got.gradient, want.gradient, FP32),
        ),
    ],
    other="gradient",
    facts=facts,
    passed=passed,
)
