"""Exercise 14.4: an accuracy that counts every sample once, from Accelerate's padded loaders.

In evaluation mode the model answers with the class that it finds in the sample, and so it is right
where that is the label; in training mode, with the class after that. Ranks get Accelerate's own
loader, in batches of 2.
"""

import operator

import torch
from torch.utils.data import DataLoader, TensorDataset

from dtlib.learn.explanations import cut
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

BATCH = 2
ALONE = (
    "A remark: no rank sent a message, so every rank scored the whole data set. That is exact, but"
    " N ranks then take as long as one. Each can score its own batches and gather the hits."
)

exact_accuracy = solution("exact_accuracy", globals())


class Reads(torch.nn.Module):
    """A model that answers with the class in the sample, and with the next one in training mode."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        # An answer must be the place of the largest logit: its size, or its own, says nothing.
        logits = torch.tensor(LOGITS)[(x.long() + self.training) % 3]
        return logits + self.bias


# The logits of a sample of each class. In no row is the largest a half after softmax, and in two of
# them another one has the largest magnitude.
LOGITS = ((0.3, 0.2, -0.9), (-0.5, 2.1, 2.05), (-5.0, -4.0, -3.9))


def case(ranks, classes, labels):
    """Right where both agree; the first samples, which come twice, are unlike the rest."""
    right = sum(map(operator.eq, classes, labels))
    words = f"{len(labels)} samples in batches of {BATCH}, right on {right}"
    both = [list(map(int, row)) for row in (classes, labels)]
    return ranks, words, lambda rank, n: tuple(map(torch.tensor, both))


def run(answer, classes, labels):
    """Score the known model on Accelerate's loader."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    accelerator = Accelerator(cpu=True)
    try:
        samples = TensorDataset(classes.float(), labels)
        loader = accelerator.prepare(DataLoader(samples, batch_size=BATCH))
        return answer(accelerator, Reads().train(), loader)
    finally:  # the next case begins with a state of its own
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def by_rows(accelerator, model, loader):
    rows = sum(len(y) for _, y in loader) * accelerator.num_processes
    return exact_accuracy(accelerator, model, loader) * len(loader.dataset) / rows


def main_only(seen):
    """The ranks that returned nothing, where others returned something."""
    if any(one.failure for one in seen):
        return False
    empty = [str(one.rank) for one in seen if one.kind == "none"]
    return 0 < len(empty) < len(seen) and {
        "empty": " and ".join(empty),
        "s": "s" * (len(empty) > 1),
    }


def facts(got, want, n, classes, labels):
    """The score, and the rows of all ranks: every rank gets the same number of full batches."""
    samples, right = len(labels[0]), int((classes[0] == labels[0]).sum())
    together = BATCH * n if n > 1 else 1  # one process keeps its short batch
    rows = -(-samples // together) * together
    counts = {"samples": samples, "right": right, "rows": rows, "more": rows - samples}
    counts["left"] = samples % together  # new samples of the last round
    return {"got": words(got[0]), "want": words(want[0]), "all": words(got), **counts}


def passed(seen):
    """With a remark, where no rank asked another one."""
    last = seen[-1][0]
    row = ("accuracy on 4 ranks of 10 samples", words(last.got), words(last.want), "")
    return Passed((row,), "" if last.messages else ALONE)


EXERCISE = RankAnswer(
    exact_accuracy,
    run=run,
    cases=[
        case(1, "21012", "11012"),
        case(3, "2212020", "1122020"),
        case(3, "01210212", "11110212"),
        case(4, "2120101202", "1211201202"),
    ],
    same=1e-6,
    mistakes=[
        Mistake("main_only", {"return torch": "if accelerator.is_main_process: return torch"},
                when=main_only),
        Mistake("local", {"accelerator.gather_for_metrics(right)": "right"},
                when=lambda got: max(got) - min(got) > 1e-6),
        ("train_mode", {"model.eval()": ""}),
        ("hits", {".mean()": ".sum()"}),
        ("padding", {"gather_for_metrics": "gather"}),
        ("by_rows", by_rows),
        ("over_one",
         {"gather_for_metrics": "gather", "mean().item()": "sum().item() / len(loader.dataset)"}),
        ("sums_cut",
         {"gather_for_metrics(right)": "gather_for_metrics(right.sum().reshape(1))",
          "float().mean().item()": "sum().item() / len(loader.dataset)"}),
        ("other_class", {".argmax(1)": ".argmax()"}),
        ("other_class", {"model(x).argmax(1)": "model(x).max(1).values.round().long()"}),
        ("other_class", {"model(x).argmax(1)": "(model(x).softmax(1)[:, 1] > 0.5)"}),
        ("other_class", {"model(x).argmax(1)": "torch.ones_like(y)"}),
        ("other_class", {".argmax(1)": ".abs().argmax(1)"}),
        ("other_class", {".argmax(1)": ".argmin(1)"}),
        ("divided_twice", {"mean().item()": "mean().item() / accelerator.num_processes"}),
        Mistake("rounded", {"mean().item()": "mean().mul(10).round().div(10).item()"}, when=cut),
        Mistake("percent", when=lambda got, want: abs(got[0] - 100 * want[0]) < 1e-3),
        Mistake("errors", {"== y": "!= y"},
                when=lambda got, want: abs(got[0] + want[0] - 1) < 1e-6),
        ("reduced_first", {"gather_for_metrics(right)": "gather(right.float().mean().reshape(1))"}),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
