"""Exercise 2.4: a score that is exact for uneven batches, and leaves the model as it was.

The model is a table of logits that notes in which mode it was asked, it and its batch norm, and
with a gradient or without. Its losses and hits are known for each picture.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: F401 (the solution uses it)

from dtlib.learn.alike import alike, rounded
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import row_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .returned import FP32, close, number_of, told

# Right or wrong, and by how far the label's logit stands above or below the larger of the others,
# whose own signs say nothing about that.
MARGINS = (2.0, -1.0, 0.5, 3.0, -2.0, 1.0, -0.5, 2.5, -3.0, 1.2, 0.7, -0.3, 4.0, 0.1, -5.0, 0.9, 3)
OTHERS = (-3.0, 1.5, -1.0, 0.5, 4.0, -2.0, 1.0, -4.0, 2.0, 0.2, -2.5, 3.0, -0.7, 1.1, -1.6, 5.0, 1)
# Few pictures have few scores, so two mistakes may agree on them by chance. On these they differ.
MORE = (5, 3, 7, 2)
APART = 0.25  # of the other two

evaluate = solution("evaluate", globals())


class Watched(nn.Module):
    """Logits of three classes from one number a picture; remembers how it was asked."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(1)  # a part with a mode of its own
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.train_mode = 0
        self.with_graph = 0

    def forward(self, x):
        self.train_mode += self.training or self.norm.training
        self.with_graph += torch.is_grad_enabled()
        return x * self.weight


def case(sizes, training):
    """Batches of these sizes, and the mode in which the model comes."""
    mode = "training" if training else "evaluation"
    label = f"batches of {', '.join(map(str, sizes))}, the model in {mode} mode"
    return label, (sizes, training)


def batches_of(sizes):
    """The first of the pictures, cut into batches."""
    y = torch.arange(sum(sizes)) % 3
    others = torch.tensor(OTHERS[: len(y)], dtype=torch.float64)
    x = torch.stack([others] * 3, 1)
    x[range(len(y)), y] += torch.tensor(MARGINS[: len(y)])
    x[range(len(y)), (y + 1) % 3] -= APART
    return list(zip(x.split(list(sizes)), y.split(list(sizes)), strict=True))


def run(answer, sizes, training):
    """Loss, accuracy, the modes of the model and its part, what changed, and a second score."""
    model, batches = Watched().train(training), batches_of(sizes)
    with torch.enable_grad():
        returned = answer(model, batches)
        graphs = torch.is_grad_enabled()
    loss, accuracy = (number_of(value) for value in row_of(returned, 2, "no_pair"))
    for key in ("train_mode", "with_graph"):
        if asked := getattr(model, key):
            raise Wrong(key, asked=asked)
    changed = {
        "grad_off": not graphs,
        "frozen": not all(p.requires_grad for p in model.parameters()),
        "moved": model.weight != 1,
        "changed": not alike(batches, batches_of(sizes)),
    }
    found = next((key for key, is_so in changed.items() if is_so), "")
    return loss, accuracy, (model.training, model.norm.training), found, scored(answer, MORE)


def scored(answer, sizes):
    """Loss and accuracy in evaluation mode; nan where there are none."""
    try:
        with torch.enable_grad():
            loss, accuracy = answer(Watched().eval(), batches_of(sizes))
        return float(loss), float(accuracy)
    except Exception:  # the case itself went well, and has the sentence
        return math.nan, math.nan


def same(a, b):
    """Whether both numbers agree, and those of the second score."""
    return all(close(x, y, FP32) for x, y in zip(numbers(a), numbers(b), strict=True))


def numbers(got):
    """Loss and accuracy, of the case and of the second score."""
    return [*got[:2], *got[4]]


def judge(got, want, training):
    """Right numbers; whatever was not put back is a mistake of its own."""
    if not all(close(x, y, FP32) for x, y in zip(got[:2], want[:2], strict=True)):
        return False
    whole, part = got[2]
    if whole != training:
        return Wrong("left_in_eval" if training else "left_in_train")
    if part != training:
        return Wrong("part_left")
    return not got[3] or Wrong(got[3])


def first_wrong(got, want):
    """0 for the loss, 1 for the accuracy."""
    return int(close(got[0], want[0], FP32))


def each(key, of):
    """A mistake in what becomes of the batches' means, in one of the numbers or in both."""

    def program(model, batches):
        means = zip(*(evaluate(model, [batch]) for batch in batches), strict=True)
        return tuple(of(own, [len(y) for _, y in batches]) for own in means)

    def when(got, want, sizes):
        k = first_wrong(got, want)
        value, more = (program(Watched(), batches_of(each))[k] for each in (sizes, MORE))
        agree = close(got[k], value, FP32) and close(got[4][k], more, FP32)
        return agree and not close(value, want[k], FP32)

    return Mistake(key, program, when)


def swapped(got, want):
    """Whether the first wrong number is the other of the two."""
    k = first_wrong(got, want)
    return close(got[k], want[1 - k], FP32) and close(got[4][k], want[4][1 - k], FP32)


def total(means, sizes):
    """The sum over all pictures."""
    return sum(mean * size for mean, size in zip(means, sizes, strict=True))


def facts(got, want, sizes):
    """The number that is wrong, and the batches."""
    k, rows = first_wrong(got, want), sum(sizes)
    found: dict[str, Any] = {"what": ("loss", "accuracy")[k]}
    found |= dict(zip(("got", "want"), told(got[k], want[k], 4), strict=True))
    found |= {"total": want[k] * rows, "rows": rows, "batches": len(sizes), "last": sizes[-1]}
    return found | {"sizes": ", ".join(map(str, sizes))}


EXERCISE = Answer(
    evaluate,
    run=run,
    judge=judge,
    same=same,
    cases=[
        case(sizes, training)
        for sizes in ((1,), (2, 2, 2), (4, 4, 1), (3, 1, 4, 1))
        for training in (True, False)
    ],
    mistakes=[
        Mistake("swapped", lambda *asked: evaluate(*asked)[::-1], when=swapped),
        each("mean_of_means", lambda means, sizes: sum(means) / len(means)),
        each("last_batch", lambda means, sizes: means[-1]),
        each("first_batch", lambda means, sizes: means[0]),
        each("sum", total),
        each("sum_of_means", lambda means, sizes: sum(means)),
        each("by_batches", lambda means, sizes: total(means, sizes) / len(sizes)),
        each("full_batches", lambda means, sizes: total(means, sizes) / (len(sizes) * sizes[0])),
        each("percent", lambda means, sizes: 100 * total(means, sizes) / sum(sizes)),
        ("softmax_twice", {"(logits, y": "(logits.softmax(1), y"}),
        ("errors", {"== y": "!= y"}),
        each("means_by_rows", lambda means, sizes: sum(means) / sum(sizes)),
        Mistake(
            "rounded",
            lambda *asked: [round(value, 2) for value in evaluate(*asked)],
            when=lambda got, want: bool(rounded(numbers(got), numbers(want))),
        ),
    ],
    facts=facts,
    passed=lambda got: Passed(
        note="Exact for 4, 4, 1 and for 3, 1, 4, 1 pictures, and the mode is put back."
    ),
)
