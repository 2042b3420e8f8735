"""What an answer keeps between two steps: the bytes of all tensors that can be reached from it."""

import gc
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

# What is reached only through these belongs to the program, not to the answer.
OUTSIDE = (type, types.ModuleType, types.FrameType, types.CodeType)
PLAIN = (torch.Tensor, torch.optim.Optimizer, list, tuple, dict)


def bytes_kept(roots: Iterable[Any], given: Iterable[torch.Tensor]) -> int:
    """Bytes behind all tensors of one dimension or more that `roots` lead to.

    Parameters
    ----------
    roots
        The function that the answer returned, and the optimizers that it had made.
    given
        Tensors that the answer was handed, and may keep.

    Returns
    -------
    int
        Memory that several tensors share counts once. The memory of `given`, and of gradients that
        are still attached to a tensor, does not count, because stage 1 holds whole gradients.
    """
    tensors = list(_tensors(roots))
    free = [*given, *(t.grad for t in tensors if t.is_leaf and t.grad is not None)]
    seen = {t.untyped_storage().data_ptr() for t in free}
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if tensor.dim() and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def _tensors(roots: Iterable[Any]) -> Iterator[torch.Tensor]:
    left, met = list(roots), {}
    while left:
        thing = left.pop()
        if id(thing) in met or isinstance(thing, OUTSIDE):
            continue
        met[id(thing)] = thing  # kept, so that no other object gets its id
        if isinstance(thing, torch.Tensor):
            yield thing
        elif isinstance(thing, types.FunctionType):
            left += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
            named = (thing.__globals__.get(name) for name in thing.__code__.co_names)
            left += [value for value in named if isinstance(value, PLAIN)]
        else:
            left += gc.get_referents(thing)
