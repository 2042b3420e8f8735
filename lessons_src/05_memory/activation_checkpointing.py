"""Activation checkpointing: keep a block's input, drop everything else, compute it again.

Backward needs the results of forward. A checkpointed block saves only its input; when backward
arrives, it runs forward a second time from there. Between the passes, L blocks of width h then hold
L·b·s·h numbers instead of everything inside them, at the price of one more forward.

T. Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost",
arXiv:1604.06174 (2016), section 4.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


class Recompute(torch.autograd.Function):
    """Forward without a graph; backward makes the graph again and runs through it."""

    @staticmethod
    def forward(
        ctx: Any, block: Callable[..., torch.Tensor], _: torch.Tensor, *inputs: Any
    ) -> torch.Tensor:
        ctx.block, ctx.state = block, surroundings(inputs)
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in inputs]
        ctx.save_for_backward(*(x if isinstance(x, torch.Tensor) else None for x in inputs))
        return block(*inputs)  # torch records nothing inside of an autograd function

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs = [
            other if saved is None else saved.detach().requires_grad_(saved.requires_grad)
            for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        with torch.enable_grad(), as_it_was(*ctx.state):
            output = ctx.block(*inputs)
        # Gradients of parameters are added here, where the graph that leads to them is.
        torch.autograd.backward(output, gradients)
        return None, None, *(x.grad if isinstance(x, torch.Tensor) else None for x in inputs)


def checkpoint(block: Callable[..., torch.Tensor], *inputs: Any) -> torch.Tensor:
    """Compute `block(*inputs)` and keep only the inputs for backward.

    Parameters
    ----------
    block
        A module or function of tensors (and anything else) that returns one tensor, and the same
        one when it is called twice. Dropout inside it draws the same numbers both times, and
        autocast is set as it was the first time.
    inputs
        Its arguments.

    Returns
    -------
    torch.Tensor
        As without the checkpoint, and so are all gradients, bit for bit.
    """
    # Autograd drops a function if none of its inputs needs a gradient, and with it the parameters
    # inside: the inputs of a first block are tokens. This extra input always needs one.
    always = torch.empty(0, requires_grad=True)
    return Recompute.apply(block, always, *inputs)


def surroundings(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a computation depends on besides its inputs: random numbers, autocast."""
    device = next((x.device.type for x in inputs if isinstance(x, torch.Tensor)), "cpu")
    autocast = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return device, dice_of(device), autocast


def dice_of(device: str) -> list[torch.Tensor]:
    """Return the state of the CPU's random numbers, and of those of a current GPU (cuda, mps)."""
    own = [] if device == "cpu" else [torch.get_device_module(device).get_rng_state()]
    return [torch.get_rng_state(), *own]


def set_dice(device: str, states: list[torch.Tensor]) -> None:
    """Set the states that `dice_of` returned."""
    torch.set_rng_state(states[0])
    if device != "cpu":
        torch.get_device_module(device).set_rng_state(states[1])


@contextlib.contextmanager
def as_it_was(
    device: str, dice: list[torch.Tensor], autocast: tuple[bool, torch.dtype]
) -> Iterator[None]:
    """Draw the same random numbers as then, and restore the present state afterwards."""
    enabled, dtype = autocast
    now = dice_of(device)
    with torch.autocast(device, dtype=dtype, enabled=enabled):
        set_dice(device, dice)
        try:
            yield
        finally:
            set_dice(device, now)


@contextlib.contextmanager
def saved_for_backward(*not_counted: torch.Tensor) -> Iterator[Callable[[], int]]:
    """Count the bytes that forward saves for backward, each piece of memory once.

    Parameters
    ----------
    not_counted
        Tensors that are in memory anyway, mostly parameters.

    Yields
    ------
    callable
        Returns the bytes so far.
    """
    there = {tensor.untyped_storage().data_ptr() for tensor in not_counted}
    seen: dict[int, torch.UntypedStorage] = {}  # kept, so that no address is used twice

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            seen[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield lambda: sum(storage.nbytes() for storage in seen.values())
