"""What sending less saves and what it costs: bytes of a step beside the loss, measured.

Every way trains the same small GPT from the same weights on the same samples of the grammar, whose
entropy no loss can beat. Bytes and messages are counted as they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from dtlib.data.english import english
from dtlib.measure.ledger.collectives import CollectiveLog
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch.data_parallel import flat_all_reduce
from dtlib.scratch.local_steps.diloco import DiLoCo
from dtlib.scratch.local_steps.local_sgd import LocalSGD
from dtlib.scratch.local_steps.power_sgd import PowerSGD

CONTEXT, LAYERS, HEADS, WIDTH = 32, 2, 2, 32
SEQUENCES, HELD_OUT = 16, 64  # in the global batch of a step, and for the loss at the end
LR = 3e-3

Step = Callable[[], None]


def after_reducing(reduce: Callable[[], None], optimizer: torch.optim.Optimizer) -> Step:
    """A step of data parallel: gradients first, then the optimizer."""

    def step() -> None:
        reduce()
        optimizer.step()

    return step


def data_parallel(model: GPT, optimizer: torch.optim.Optimizer) -> Step:
    return after_reducing(lambda: flat_all_reduce(model), optimizer)


def power_sgd(rank: int) -> Callable[[GPT, torch.optim.Optimizer], Step]:
    return lambda model, optimizer: after_reducing(PowerSGD(model, rank).reduce, optimizer)


def local_sgd(every: int) -> Callable[[GPT, torch.optim.Optimizer], Step]:
    return lambda model, optimizer: LocalSGD(model, optimizer, every).step


def diloco(every: int) -> Callable[[GPT, torch.optim.Optimizer], Step]:
    return lambda model, optimizer: DiLoCo(model, optimizer, every).step


# What stands between backward and the next batch, by name.
WAYS: dict[str, Callable[[GPT, torch.optim.Optimizer], Step]] = {
    "data parallel": data_parallel,
    "local SGD, H = 4": local_sgd(4),
    "local SGD, H = 16": local_sgd(16),
    "DiLoCo, H = 16": diloco(16),
    "PowerSGD, r = 4": power_sgd(4),
    "PowerSGD, r = 1": power_sgd(1),
}


def compare(steps: int = 160, names: Sequence[str] = tuple(WAYS)) -> list[dict[str, float | str]]:
    """Train in each way on the ranks that call this; rows are the same on all of them.

    Parameters
    ----------
    steps
        A multiple of every H, so that no way ends within a round.
    names
        Keys of `WAYS`.

    Returns
    -------
    list of dict
        `way`; `bytes` and `messages` that a rank sends in a step on average, by a ring; `loss` on
        held-out text after the last step, and the grammar's `entropy`, in nats per token.
    """
    grammar = english()
    windows = (steps * SEQUENCES + HELD_OUT) * (CONTEXT + 1)
    text = torch.from_numpy(grammar.sample(windows, 0)).view(-1, CONTEXT + 1)
    config = GPTConfig(len(grammar.vocabulary), CONTEXT, LAYERS, HEADS, WIDTH)
    rows: list[dict[str, float | str]] = []
    for name in names:
        model = GPT(config)
        step = WAYS[name](model, torch.optim.AdamW(model.parameters(), LR, weight_decay=0.0))
        with CollectiveLog() as log:
            for batch in text[: steps * SEQUENCES].split(SEQUENCES):
                loss_of(model, batch.chunk(dist.get_world_size())[dist.get_rank()]).backward()
                step()
                model.zero_grad()
        sent = log.tallies.values()
        with torch.no_grad():
            loss = float(loss_of(model, text[steps * SEQUENCES :]))
        rows.append(
            {
                "way": name,
                "bytes": sum(tally.wire for tally in sent) / steps,
                "messages": sum(tally.calls for tally in sent) / steps,
                "loss": loss,
                "entropy": grammar.entropy,
            }
        )
    return rows


def loss_of(model: GPT, text: Tensor) -> Tensor:
    """The mean loss of windows [b, context + 1], in nats per token."""
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
