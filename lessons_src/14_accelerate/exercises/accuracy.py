"""Exercise 14.4: an accuracy that counts every sample once, from Accelerate's padded loaders.

A sample's label says whether the model will be right: in evaluation it always answers 1, in
training always 0. Ranks get Accelerate's own loader, batches of 2.
"""

import torch
from torch.utils.data import DataLoader, TensorDataset

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

BATCH = 2

exact_accuracy = solution("exact_accuracy", globals())


class AnswersOne(torch.nn.Module):
    """Class 1 in evaluation, class 0 in training, so that the mode shows in the score."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        sign = -1.0 if self.training else 1.0
        return torch.stack([-sign * torch.ones(len(x)), sign * torch.ones(len(x))], 1) + self.bias


def case(ranks, *hits):
    """Right or wrong, sample by sample; the first ones, which come twice, are unlike the rest."""
    label = f"{len(hits)} samples in batches of {BATCH}, right on {sum(hits)}"
    return ranks, label, lambda rank, n: torch.tensor(hits)


def run(answer, hits):
    """Score the known model on Accelerate's loader."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    accelerator = Accelerator(cpu=True)
    try:
        samples = TensorDataset(torch.arange(len(hits)).float(), hits)
        loader = accelerator.prepare(DataLoader(samples, batch_size=BATCH))
        return answer(accelerator, AnswersOne().train(), loader)
    finally:  # the next case begins with a state of its own
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def by_rows(accelerator, model, loader):
    rows = sum(len(y) for _, y in loader) * accelerator.num_processes
    return exact_accuracy(accelerator, model, loader) * len(loader.dataset) / rows


def facts(got, want, n, hits):
    """The score, and the rows of all ranks: each gets as many full batches as the first."""
    samples, right = len(hits[0]), sum(hits[0].tolist())
    together = BATCH * n if n > 1 else 1  # one process keeps its short batch
    rows = -(-samples // together) * together
    counts = {"samples": samples, "right": right, "rows": rows, "more": rows - samples}
    return {"got": words(got[0]), "want": words(want[0]), "all": words(got), **counts}


def passed(seen):
    last = seen[-1][0]
    row = ("accuracy on 4 ranks of 10 samples", words(last.got), words(last.want), "")
    return Passed((row,))


EXERCISE = RankAnswer(
    exact_accuracy,
    run=run,
    cases=[
        case(1, 0, 0, 1, 1, 1),
        case(3, 0, 0, 0, 1, 1, 1, 1),
        case(3, 0, 1, 0, 1, 1, 1, 1, 1),
        case(4, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1),
    ],
    same=1e-6,
    mistakes=[
        Mistake("local", {"accelerator.gather_for_metrics(right)": "right"},
                when=lambda got: max(got) - min(got) > 1e-6),
        ("train_mode", {"model.eval()": ""}),
        ("hits", {".mean()": ".sum()"}),
        ("padding", {"gather_for_metrics": "gather"}),
        ("by_rows", by_rows),
        ("over_one",
         {"gather_for_metrics": "gather", "mean().item()": "sum().item() / len(loader.dataset)"}),
        ("reduced_first", {"gather_for_metrics(right)": "gather(right.float().mean().reshape(1))"}),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
