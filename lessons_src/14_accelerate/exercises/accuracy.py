"""Exercise 14.4: an accuracy that counts every sample once, from Accelerate's padded loaders.

A sample's label decides whether the model is right: out of three classes the model always answers
1 in evaluation mode, and 0 in training mode. Ranks get Accelerate's own loader, in batches of 2.
"""

import torch
from torch.utils.data import DataLoader, TensorDataset

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


class AnswersOne(torch.nn.Module):
    """A model that answers 1 in evaluation, 0 in training, so that the mode shows in the score."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        logits = torch.zeros(len(x), 3)
        logits[:, 0 if self.training else 1] = 1.0
        return logits + self.bias


def case(ranks, *labels):
    """The model is right on labels 1; the first samples, which come twice, differ from the rest."""
    words = f"{len(labels)} samples in batches of {BATCH}, right on {labels.count(1)}"
    return ranks, words, lambda rank, n: torch.tensor(labels)


def run(answer, labels):
    """Score the known model on Accelerate's loader."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    accelerator = Accelerator(cpu=True)
    try:
        samples = TensorDataset(torch.arange(len(labels)).float(), labels)
        loader = accelerator.prepare(DataLoader(samples, batch_size=BATCH))
        return answer(accelerator, AnswersOne().train(), loader)
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


def facts(got, want, n, labels):
    """The score, and the rows of all ranks: every rank gets the same number of full batches."""
    samples, right = len(labels[0]), labels[0].tolist().count(1)
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
        case(1, 0, 2, 1, 1, 1),
        case(3, 0, 0, 0, 1, 1, 1, 1),
        case(3, 0, 1, 0, 1, 1, 1, 1, 1),
        case(4, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1),
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
        Mistake("percent", when=lambda got, want: abs(got[0] - 100 * want[0]) < 1e-3),
        Mistake("errors", when=lambda got, want: abs(got[0] + want[0] - 1) < 1e-6),
        ("reduced_first", {"gather_for_metrics(right)": "gather(right.float().mean().reshape(1))"}),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
