"""Models, batches and a serial run that the tests of dtlib.scratch compare with, in float64."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.scratch import zero
from dtlib.scratch.zero.schedule import AllGather, Free, Instruction, ReduceScatter

ZERO = {1: zero.ZeroStage1, 2: zero.ZeroStage2, 3: zero.ZeroStage3}
Batch = tuple[torch.Tensor, torch.Tensor]

# float64 rounds by 1.1e-16. Gradients are sums of at most a few hundred terms of order 1, and a few
# steps carry their rounding on: 1e-11 leaves a margin of a hundred, and the smallest real mistake
# (a missing division, a lost element) is above 1e-4.
ROUNDING = 1e-11


def mlp(widths: list[int], seed: int = 0) -> nn.Sequential:
    """Linear layers with norms and tanh between them."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        layers += [nn.Sequential(nn.LayerNorm(a), nn.Linear(a, b)), *([nn.Tanh()] if i else [])]
    return nn.Sequential(*layers).double()


def optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum or AdamW, with no weight decay on vectors."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    return torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)


def batch(width: int, out: int, samples: int, step: int) -> Batch:
    """The global batch of a step: [samples, width] and [samples, out]."""
    generator = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(samples, width, generator=generator, dtype=torch.float64)
    return x, torch.randn(samples, out, generator=generator, dtype=torch.float64)


def cut(whole: Batch, rank: int, ranks: int, accumulation: int) -> list[Batch]:
    """This rank's micro-batches of a global batch."""
    x, y = (part.chunk(ranks)[rank].chunk(accumulation) for part in whole)
    return list(zip(x, y, strict=True))


def serial(
    model: nn.Module, name: str, batches: list[Batch], clip: float | None = None
) -> list[float]:
    """Train in this process alone, in place; the losses before each update."""
    steps, losses = optimizer(name, model), []
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        steps.zero_grad()
        losses.append(loss.item())
    return losses


def flat(model: nn.Module) -> torch.Tensor:
    """All parameters of a model, one behind the other."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def gap(a: nn.Module, b: nn.Module) -> float:
    """The largest difference between the parameters of two models."""
    return float((flat(a) - flat(b)).abs().max())


def raised(call: Callable[[], object]) -> str:
    """What a call that must fail says."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def elements_sent(steps: Sequence[Instruction], psi: Mapping[int, int], ranks: int) -> int:
    """Return the elements that one rank sends: (N-1)·⌈Ψ/N⌉ a collective on a ring.

    Parameters
    ----------
    psi
        The elements of each block, without padding.
    ranks
        N.
    """
    moved = [psi[i.block] for i in steps if isinstance(i, (AllGather, ReduceScatter))]
    return sum((ranks - 1) * -(-size // ranks) for size in moved)


def most_gathered(steps: Sequence[Instruction], psi: Mapping[int, int]) -> int:
    """Return the most elements that are whole at once, padding not counted."""
    now = most = 0
    for instruction in steps:
        if isinstance(instruction, AllGather):
            now += psi[instruction.block]
        elif isinstance(instruction, Free):
            now -= psi[instruction.block]
        most = max(most, now)
    return most


def ring_wire_elements(elements, ranks, rank=0):
    """Elements that one rank sends in a ring all-reduce of a tensor that is cut without padding.

    A rank sends every chunk twice, but once only the chunk that it finishes (rank + 1) and the
    one that reaches it last (rank + 2). Where N divides `elements` this is 2(N-1)·n/N, and it is
    never more than 2(N-1)·⌈n/N⌉.
    """
    if ranks == 1:
        return 0
    kept = (shard_elements(elements, ranks, rank + k) for k in (1, 2))
    return 2 * elements - sum(kept)


def shard_elements(elements, ranks, rank):
    """Elements of chunk `rank` when n elements are cut for N ranks: the first are longer by one."""
    return elements // ranks + (rank % ranks < elements % ranks)
