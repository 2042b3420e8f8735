"""Exercise 14.3: a loss whose gradient is the mean, although Accelerate divides by a fixed number.

The model is one weight w. A sample x has the loss w·x, so its gradient is x. A loop stands for
ranks and micro-batches: it divides by the accumulation, as Accelerate's `backward` does, and by
the number of processes, as DDP does.
"""

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

loss_for_backward = solution("loss_for_backward", globals())

# Words of the solution, and what divides without a rest in their place.
WEIGHED = "losses.sum() * num_processes * accumulation / samples"
FLOORED = (
    "losses.sum() * (num_processes * accumulation // samples)",
    "losses.sum() / (samples // (num_processes * accumulation))",
    "losses.sum() / max(1, samples // (num_processes * accumulation))",
    "losses.sum() * accumulation / (samples // num_processes)",
    "losses.sum() * num_processes / (samples // accumulation)",
    "losses.sum() * num_processes / max(1, samples // accumulation)",
)


def run(answer, full, ranks):
    """The gradient of a step. `ranks` has each one's micro-batches, `full` is the accumulation."""
    w = torch.ones((), requires_grad=True)
    samples = sum(len(micro) for rank in ranks for micro in rank)
    for micro in (micro for rank in ranks for micro in rank):
        losses = w * torch.tensor(micro, dtype=torch.float32)
        before = w.grad and float(w.grad)
        loss = answer(losses, samples, len(ranks), full)
        if (w.grad and float(w.grad)) != before:
            raise Wrong("backward_inside")
        if loss is None:
            raise Wrong("none")
        if not isinstance(loss, torch.Tensor):
            raise Wrong("detached", what=f"a {type(loss).__name__}")
        if not loss.requires_grad:
            raise Wrong("detached", what="a tensor without a graph")
        if loss.numel() != 1:
            raise Wrong("vector", got=loss.numel())
        (loss / full / len(ranks)).backward()
    if w.grad is None:
        raise Wrong("detached", what="a tensor made without the losses")
    return float(w.grad)


EXERCISE = Answer(
    loss_for_backward,
    run=run,
    same=1e-5,
    cases=[
        ("one process, one sample", (1, [[[3]]])),
        ("3 processes, 2 micro-batches each, accumulation 2",
         (2, [[[1, 3, 2, 2], [5, 7, 6, 6]], [[5, 7, 8, 4], [2, 2, 1, 3]],
              [[9, 17, 12, 14], [8, 6, 7, 7]]])),
        ("one process, 2 micro-batches, accumulation 4", (4, [[[1, 3], [5, 7]]])),
        ("one process, micro-batches of 3 and 1 samples, accumulation 2", (2, [[[1, 3, 5], [7]]])),
        ("2 processes, 2 micro-batches each, accumulation 2, 7 samples",
         (2, [[[1, 3], [5, 8]], [[2, 6], [9]]])),
        ("3 processes, one micro-batch of a sample each, accumulation 4",
         (4, [[[2]], [[5]], [[4]]])),
        ("4 processes, 3 unequal micro-batches each, accumulation 4",
         (4, [[[1], [2, 4], [6]], [[3], [5], [7]], [[9, 9], [1], [1]], [[2], [8], [4, 4, 4]]])),
    ],
    mistakes=[
        ("no_accumulation", {" * accumulation": ""}),
        ("no_processes", {" * num_processes": ""}),
        ("neither", {" * num_processes * accumulation": ""}),
        *(("whole_division", {WEIGHED: floored}) for floored in FLOORED),
        ("tail", {"losses.sum() * num_processes * accumulation / samples": "losses.mean()"}),
        ("sum", {" * num_processes * accumulation / samples": ""}),
        ("own_count", {"/ samples": "/ len(losses)"}),
        ("means", {"losses.sum()": "losses.mean()"}),
        ("divided_too", {"* num_processes * accumulation": "/ num_processes / accumulation"}),
        ("not_yet", {" / samples": ""}),
        Mistake("rounded", {"losses.sum()": "losses.half().sum()"},
                when=lambda got, want: abs(got / want - 1) < 0.01),
    ],
    facts=lambda got, want, full, ranks: {
        "n": len(ranks), "taken": len(ranks[0]), "times": words(got / want),
        "count": sum(len(micro) for rank in ranks for micro in rank),
        "total": sum(x for rank in ranks for micro in rank for x in micro),
    },
    passed=lambda got, want: Passed(
        (("gradient of the uneven tail on 4 processes", words(got[-1]), words(want[-1]), ""),)
    ),
)  # fmt: skip
