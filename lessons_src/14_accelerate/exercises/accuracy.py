"""Exercise 14.4: an accuracy that counts every sample once, from Accelerate's padded loaders.

A sample's label says whether the model will be right: in evaluation it always answers 1, in
training always 0. Ranks get Accelerate's own loader, batches of 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine, number

BATCH = 2
# Right or wrong, sample by sample; the first ones, which come twice, are unlike the rest.
PLAN = (
    (1, (0, 0, 1, 1, 1)),
    (3, (0, 0, 0, 1, 1, 1, 1)),
    (3, (0, 1, 0, 1, 1, 1, 1, 1)),
    (4, (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)),
)


class AnswersOne(torch.nn.Module):
    """Class 1 in evaluation, class 0 in training, so that the mode shows in the score."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sign = -1.0 if self.training else 1.0
        return torch.stack([-sign * torch.ones(len(x)), sign * torch.ones(len(x))], 1) + self.bias


def reference(accelerator: Any, model: torch.nn.Module, loader: Any) -> float:
    """Hits travel sample by sample, so that Accelerate can drop those that came twice."""
    model.eval()
    hits = []
    with torch.no_grad():
        for x, y in loader:
            right = model(x).argmax(1) == y
            hits.append(accelerator.gather_for_metrics(right))
    return torch.cat(hits).float().mean().item()


def check(student: Callable[..., Any]) -> Passed:
    """Score a known model on 1, 3 and 4 ranks whose last batches are padded."""
    plan = [(n, [_case(hits) for m, hits in PLAN if m == n]) for n in (1, 3, 4)]
    rounds = examine(functools.partial(_on_rank, student), plan, explain)
    got = rounds[-1].ranks[0].values[0]
    return Passed((("accuracy on 4 ranks of 10 samples", number(got), "0.5", ""),))


def _case(hits: tuple[int, ...]) -> Case:
    return Case(
        f"{len(hits)} samples in batches of {BATCH}, right on {sum(hits)}",
        make=lambda rank, n: torch.tensor(hits),
        want=lambda rank, n: torch.tensor(sum(hits) / len(hits)),
        tolerance=1e-6,
    )


def _on_rank(student: Callable[..., Any], hits: torch.Tensor) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    accelerator = Accelerator(cpu=True)
    try:
        samples = TensorDataset(torch.arange(len(hits)).float(), hits)
        loader = accelerator.prepare(DataLoader(samples, batch_size=BATCH))
        return student(accelerator, AnswersOne().train(), loader)
    finally:  # the next case begins with a state of its own
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def rows(samples: int, n: int) -> list[list[list[int]]]:
    """For each rank the batches of sample numbers that Accelerate deals to it, padding included."""
    from accelerate.data_loader import BatchSamplerShard

    whole = BatchSampler(range(samples), BATCH, drop_last=False)
    if n == 1:  # one process keeps its short batch
        return [list(whole)]
    return [list(BatchSamplerShard(whole, n, rank)) for rank in range(n)]


def explain(round_: Round) -> Wrong | None:
    """Recognise a mistake by the score that it leaves."""
    values = [v for v in round_.first_values if v is not None]
    if round_.failures or len(values) < round_.n:
        return None
    hits = [int(v) for v in round_.case.make(0, round_.n).tolist()]
    dealt = rows(len(hits), round_.n)
    total = sum(map(len, (batch for rank in dealt for batch in rank)))
    facts = {
        "got": number(values[0]), "n": round_.n, "want": number(sum(hits) / len(hits)),
        "samples": len(hits), "right": sum(hits), "rows": total, "more": total - len(hits),
    }  # fmt: skip
    if max(values) - min(values) > 1e-6:
        return Wrong("local", round_.label, all=", ".join(map(number, values)), **facts)
    for key, value in _candidates(hits, dealt).items():
        if abs(values[0] - value) < 1e-6:
            return Wrong(key, round_.label, **facts)
    return None


def _candidates(hits: list[int], dealt: list[list[list[int]]]) -> dict[str, float]:
    """What known mistakes make of these hits; the first that fits is named."""
    samples = len(hits)
    batches = [[hits[i] for i in batch] for rank in dealt for batch in rank]
    counted = sum(map(len, batches))
    exact, whole = sum(hits) / samples, sum(map(sum, batches))
    return {
        "train_mode": 1 - exact,
        "hits": sum(hits),
        "padding": whole / counted,
        "by_rows": sum(hits) / counted,
        "over_one": whole / samples,
        "reduced_first": sum(sum(batch) / len(batch) for batch in batches) / len(batches),
    }
