"""The tensor axis of a mesh: a GPT whose matrices are divided among ranks, as DTensors.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3, through torch's `parallelize_module`:
the first matrix of attention and of the MLP by columns, the second by rows, so that each needs one
all-reduce forward and one backward; the embedding, which is also the output layer, by words, so
that no rank ever holds a whole row of logits in training.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dtlib.config.values import HF
from dtlib.data.batches import seed_of
from dtlib.errors import BadInput
from dtlib.sim import shapes

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from dtlib.config import RunConfig
    from dtlib.models.gpt import GPT


def refuse_uncut(config: RunConfig, ranks: int) -> None:
    """Refuse what cannot be divided among that many tensor ranks.

    Raises `BadInput`.
    """
    if ranks == 1:
        return
    name = config.model or "nano"
    if config.task != "text" or name.startswith(HF):
        what = f"the model {name} is loaded by transformers"
        what = what if config.task == "text" else "a ResNet has none that is cut that way"
        raise BadInput(
            f"tensor parallelism divides the matrices of dtlib's own GPT among {ranks} ranks, and"
            f" {what}; use strategy fsdp without a tensor axis."
        )
    heads = shapes.GPT.get(name, {"heads": ranks})["heads"]
    if heads % ranks:
        fit = [str(n) for n in range(1, heads + 1) if heads % n == 0]
        raise BadInput(
            f"model {name} has {heads} heads, which {ranks} tensor ranks cannot share equally; use"
            f" {', '.join(fit[:-1])} or {fit[-1]} tensor ranks."
        )


def cut(model: GPT, mesh: DeviceMesh) -> None:
    """Divide the matrices of a GPT, equal on all ranks, along a mesh of one dimension, in place.

    Norms, positions and the biases that are added after a sum stay whole on every rank; all ranks
    compute their gradients from the same numbers.
    """
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleOutput,
        RowwiseParallel,
        parallelize_module,
    )

    ranks, rank = mesh.size(), mesh.get_local_rank()
    for block in model.h:
        attention: Any = block.attn
        for parameter in attention.c_attn.parameters():
            parameter.data = together(parameter.data, ranks)
        attention.heads //= ranks
        draw_own(attention, rank)
    # the output layer is the embedding's matrix, and multiplies what the last norm returns
    whole: Any = {"output_layouts": Replicate(), "desired_output_layouts": Replicate()}
    styles: dict[str, Any] = {
        "wte": RowwiseParallel(input_layouts=Replicate()),
        "h.*.attn.c_attn": ColwiseParallel(), "h.*.attn.c_proj": RowwiseParallel(),
        "h.*.mlp.c_fc": ColwiseParallel(), "h.*.mlp.c_proj": RowwiseParallel(),
        "ln_f": PrepareModuleOutput(**whole, use_local_output=False),
    }  # fmt: skip
    parallelize_module(model, mesh, styles, src_data_rank=None)  # every rank has the whole model


def together(rows: Tensor, ranks: int) -> Tensor:
    """Order rows of query, key and value so that each rank's part has all three of its heads.

    `c_attn` has the rows of all queries, then all keys, then all values; a DTensor is cut into
    consecutive rows.
    """
    return rows.unflatten(0, (3, ranks, -1)).transpose(0, 1).flatten(0, 2)


def apart(rows: Tensor, ranks: int) -> Tensor:
    """Undo `together`: the order in which checkpoints have the rows."""
    return rows.unflatten(0, (ranks, 3, -1)).transpose(0, 1).flatten(0, 2)


def reordered(
    state: dict[str, Any], order: Callable[[Tensor, int], Tensor], ranks: int
) -> dict[str, Any]:
    """Return a neutral state with the rows of every `c_attn`, and of its moments, in an order."""

    def each(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: order(tensor, ranks) if ".c_attn." in name else tensor
            for name, tensor in tensors.items()
        }

    moments = {kind: each(tensors) for kind, tensors in state["optimizer"].items()}
    return {**state, "model": each(state["model"]), "optimizer": moments}


def parts_of_logits() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which a loss, and its backward, take logits in parts of the vocabulary.

    A rank sends three numbers for each position instead of its logits.
    """
    from torch.distributed.tensor.parallel import loss_parallel

    return loss_parallel()


def is_cut(tensor: Tensor) -> bool:
    """Return whether each tensor rank has its own part of a DTensor."""
    mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
    names = mesh.mesh_dim_names
    return "tensor" in names and placements[names.index("tensor")].is_shard()


def whole_of(tensor: Tensor) -> Tensor:
    """Return the whole of a DTensor, gathered from its ranks.

    torch warns that two gathers in a row are slower than one, on every rank and for every tensor,
    and that they might add up in different orders; a gather adds nothing up.
    """
    logger = logging.getLogger("torch.distributed.tensor._redistribute")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return tensor.full_tensor()  # type: ignore[attr-defined]
    finally:
        logger.setLevel(before)


def draw_own(attention: nn.Module, rank: int) -> None:
    """Let each tensor rank drop attention probabilities of its own heads by masks of its own.

    Everywhere else activations are whole on all tensor ranks, which draw the same masks, because
    they start a step from the same seed (`loop.seed_dropout`). Here a rank's seed follows from a
    number that they all draw, and from the rank. What comes after draws as if nothing had been
    drawn here, so the ranks stay together; recomputing a block draws the same again.
    """
    inside = contextlib.ExitStack()

    def enter(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if module.training and module.dropout:
            common = int(torch.randint(2**62, ()))  # on the CPU: no device has to be waited for
            inside.enter_context(_seeded(seed_of("heads", common, rank), args[0].device))

    def leave(*_: Any) -> None:
        inside.close()

    attention.register_forward_pre_hook(enter)
    attention.register_forward_hook(leave)


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from a seed inside the block, and after it as if the block had drawn nothing."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
