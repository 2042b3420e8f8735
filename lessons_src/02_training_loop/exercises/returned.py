"""What counts as a number in the exercises of this lesson, and the key for anything else."""

import math
from typing import Any

import numpy as np
import torch

from dtlib.learn.readers import told_apart
from dtlib.learn.verdicts import Wrong

FP32 = 1e-6  # a number that was reported in fp32 is off by less


def number_of(returned: Any) -> float:
    """A loss as a float; an array of one number is one, too, and a tensor without a graph.

    Raises
    ------
    Wrong
        `none`, `graph` (with `nodes`, the operations that it holds on to), `many` or `no_number`
        (with `got`).
    """
    if returned is None:
        raise Wrong("none")
    if isinstance(returned, (torch.Tensor, np.ndarray)):
        if math.prod(returned.shape) != 1:
            raise Wrong("many", got=list(returned.shape))
        if isinstance(returned, torch.Tensor) and returned.requires_grad:
            raise Wrong("graph", nodes=graph_size(returned))
        return float(returned.item())
    if isinstance(returned, (bool, str)) or not hasattr(returned, "__float__"):
        raise Wrong("no_number", got=type(returned).__name__)
    return float(returned)


def graph_size(tensor: torch.Tensor) -> int:
    """How many operations of autograd a tensor keeps alive."""
    seen: set[Any] = set()
    todo = [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return len(seen)


def told(one: float, other: float, digits: int) -> tuple[str, str]:
    """Two numbers with so many digits after the point, or as many as tell them apart."""
    few = f"{one:.{digits}f}", f"{other:.{digits}f}"
    return told_apart(one, other) if few[0] == few[1] else few


def close(a: float, b: float, tolerance: float = 1e-9) -> bool:
    """Whether two numbers agree but for rounding in fp64; nan agrees with nothing."""
    return abs(a - b) <= tolerance * max(1.0, abs(b))
