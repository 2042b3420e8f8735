"""What the patients are given: first the numbers that a notebook shows, then others.

A rank is given its own numbers alone, so it can know those of other ranks only by talking to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Given = dict[str, Any]


def given(name: str, rank: int, n: int, case: int = 0, port: int = 0) -> Given:
    """Return the arguments of a patient on one rank."""
    if name == "p05":
        return {"port": port}
    return TABLE[name](rank, n)[case]


def cases(name: str) -> int:
    """Return how many cases a patient has."""
    return 1 if name == "p05" else len(TABLE[name](0, 2))


def _heads(rank: int, n: int) -> list[Given]:
    return [
        {"x": torch.ones(1, 2), "left": rank == 0},
        {"x": torch.tensor([[1.0, rank - 2.5]]), "left": rank != n - 1},
    ]


def _scores(rank: int, n: int) -> list[Given]:
    """10, 11 and 7 samples: on 2 to 5 ranks two or three of them make the sampler repeat some."""
    return [
        {"right": torch.tensor([1, 1, 1, 0, 0, 0, 0, 0, 0, 0])},
        {"right": torch.tensor([0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1])},
        {"right": torch.tensor([1, 0, 0, 1, 0, 0, 0])},
    ]


def _tokens(rank: int, n: int) -> list[Given]:
    return [
        {"losses": torch.arange(1.0, rank + 2)},
        {"losses": torch.arange(rank % 3 + 2.0) ** 2 + rank},
    ]


def _activations(rank: int, n: int) -> list[Given]:
    steps = torch.arange(4.0).repeat_interleave(2).reshape(4, 2, 1)
    return [{"batches": 10.0 * rank + steps}, {"batches": (rank - 1.5) ** 2 * (1 + steps[:3])}]


def _gradients(rank: int, n: int) -> list[Given]:
    """In the second case another rank has a long one in each step; then long ones cancel out."""
    long = [[(n + 2.0) * (rank == step % n), 0.3] for step in range(4)]
    return [
        {"gradients": torch.tensor([[float(step * rank), 0.5] for step in range(4)])},
        {"gradients": torch.tensor([*long, [2.0 * (-1) ** rank, 0.1], [0.2, 0.3]])},
    ]


def _precision(rank: int, n: int) -> list[Given]:
    """A short gradient, a long one, and one that is 0 in fp16 unless it is scaled."""
    return [
        {"exact": torch.tensor([0.3, 0.4]), "scale": 1024.0},
        {"exact": torch.tensor([1.5, 2.0]), "scale": 512.0},
        {"exact": torch.tensor([1e-8, 2e-8]), "scale": 1024.0},
    ]


def _broken(rank: int, n: int) -> list[Given]:
    """A broken batch on the last rank; then one on rank 0, and later one on two ranks."""
    first = torch.full((4,), 1.0 + 2 * rank)
    second = torch.tensor([4.0 - rank, 1.0, 2.0 * rank, 3.0, 1.0 + rank])
    if rank == n - 1:
        first[2] = float("inf")
    if rank == 0:
        second[1] = float("nan")
    if rank in (0, n - 1):
        second[3] = float("-inf")
    return [{"batches": first}, {"batches": second}]


def _each(name: str, *values: Callable[[int, int], Any]) -> Callable[[int, int], list[Given]]:
    """A patient with one argument, by rank and number of ranks."""
    return lambda rank, n: [{name: value(rank, n)} for value in values]


TABLE: dict[str, Callable[[int, int], list[Given]]] = {
    "p01": _each("value", lambda rank, n: 10.0**rank, lambda rank, n: 5.0 - 2 * rank),
    # the smallest loss is that of rank 0, of the last rank, and of rank 1
    "p02": _each("loss", lambda rank, n: 3.0 + rank, lambda rank, n: 7.0 - rank,
                 lambda rank, n: 1.5 + abs(rank - 1)),
    "p03": _each("samples", lambda rank, n: torch.arange(1.0, 2 * n),
                 lambda rank, n: torch.arange(3 * n - 1.0).flip(0)),
    "p04": _heads,
    "p06": _each("step", lambda rank, n: 3, lambda rank, n: 12),
    "p07": _each("seed", lambda rank, n: 7, lambda rank, n: 42),
    "p08": _each("seed", lambda rank, n: 3, lambda rank, n: 8),
    "p09": _scores,
    "p10": _each("targets", lambda rank, n: 3.0 + torch.arange(n),
                 lambda rank, n: torch.tensor([8.0, -1.0, 2.0, 5.0, 0.0])[:n]),
    "p11": _tokens,
    "p12": _activations,
    "p13": _gradients,
    "p14": _each("target", lambda rank, n: 3.0, lambda rank, n: -2.0),
    "p15": _each("factor", lambda rank, n: 0.5, lambda rank, n: 0.9),
    "p16": _precision,
    "p17": _broken,
}  # fmt: skip
