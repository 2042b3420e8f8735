"""The form in which checkpoints hold a model and its optimizer, the same for every strategy.

The neutral form knows no ranks, no shards and no framework:

    {"model": {name: tensor}, "optimizer": {"exp_avg": {name: tensor}, …}, "steps": int}

Names are those of the bare model, tensors are whole, and a tensor with several names (tied
weights) has its first. So M ranks can load under one strategy what N ranks saved under another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}
"""The tensors that an optimizer keeps per parameter, by torch's names."""


def named_tensors(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers (not copies), each under one name.

    A parameter that is not trained is left out: it comes from where the model came from.
    """
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad:
            continue
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def shapes(module: torch.nn.Module) -> dict[str, dict[str, torch.Size]]:
    """Return the shapes of the "model" (parameters and buffers) and of its "moments"."""
    model = named_tensors(module)
    moments = {name: p.shape for name, p in module.named_parameters() if p.requires_grad}
    return {"model": {name: tensor.shape for name, tensor in model.items()}, "moments": moments}


def moments(
    module: torch.nn.Module, optimizer: torch.optim.Optimizer, whole: Callable[[Tensor], Tensor]
) -> dict[str, dict[str, Tensor]]:
    """Return {kind: {name: tensor}} of a torch optimizer; empty before its first step.

    Parameters
    ----------
    whole
        returns the whole tensor for this rank's part; called in the same order on every rank.
    """
    found: dict[str, dict[str, Tensor]] = {}
    kinds = {kind for state in optimizer.state.values() for kind in state} - {"step"}
    for kind in sorted(kinds):
        found[kind] = {}
        for name, p in module.named_parameters():
            if p.requires_grad:  # a parameter without a gradient so far has no moments
                value = optimizer.state[p].get(kind) if p in optimizer.state else None
                found[kind][name] = whole(torch.zeros_like(p) if value is None else value).detach()
    return found


def load_moments(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    share: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Give a torch optimizer the moments and the step of a neutral state.

    Parameters
    ----------
    share
        maps (parameter, whole tensor) to this rank's share, laid out like the parameter.
    """
    names = {id(p): name for name, p in module.named_parameters()}
    ordered = [p for group in optimizer.param_groups for p in group["params"]]
    entries = {
        number: {
            "step": torch.tensor(float(state["steps"])),
            **{kind: share(p, of[names[id(p)]]) for kind, of in state["optimizer"].items()},
        }
        for number, p in enumerate(ordered)
    }
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(
        {"state": entries if state["optimizer"] else {}, "param_groups": groups}
    )
