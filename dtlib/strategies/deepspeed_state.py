"""Convert the state of DeepSpeed's ZeRO optimizers to the neutral form and back.

At stages 1 and 2 the optimizer works on one flat fp32 tensor per parameter group, this rank's part
of it; at stage 3 on one per sub-group, in which every parameter is cut separately, and which
infinity keeps in files. DeepSpeed has public functions that read whole tensors; writing them into
an optimizer that has not stepped yet needs its internal ones, here those of DeepSpeed 0.19.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dtlib.strategies import neutral

Flat = tuple[int, Tensor]


def gather(module: torch.nn.Module, optimizer: Any, keep: bool) -> dict[str, Any]:
    """Return {"model": …, "optimizer": …} as `neutral` says; called on every rank.

    Parameters
    ----------
    keep
        Whether this rank keeps the result. All ranks hold every whole tensor for a moment; the
        others return empty dicts.
    """
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    model: dict[str, Tensor] = {}
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    parameters = {id(p): (name, p) for name, p in trained}
    for name, tensor in neutral.named_tensors(module).items():
        whole = safe_get_full_fp32_param(tensor) if id(tensor) in parameters else tensor
        if keep:
            model[name] = whole.detach().cpu().clone()
    moments: dict[str, dict[str, Tensor]] = {kind: {} for kind in _kinds(optimizer)}
    if moments and not _is_stage_3(optimizer):
        _link(optimizer)
    for kind, found in moments.items():
        for name, p in parameters.values():
            whole = safe_get_full_optimizer_state(p, kind)
            if keep:
                found[name] = whole.detach().cpu().clone()
    return {"model": model, "optimizer": moments if keep else {}}


def scatter(module: torch.nn.Module, optimizer: Any, state: dict[str, Any]) -> None:
    """Give this rank its part of a neutral state; called on every rank with the whole state."""
    buffers = dict(module.named_buffers())
    names = {id(p): name for name, p in module.named_parameters()}
    with torch.no_grad():
        for name, buffer in buffers.items():
            if name in state["model"]:
                buffer.copy_(state["model"][name])
        fill = _fill_stage_3 if _is_stage_3(optimizer) else _fill_stage_1_2
        fill(optimizer, names, state)


def _is_stage_3(optimizer: Any) -> bool:
    return hasattr(optimizer, "fp16_partitioned_groups")


def _link(optimizer: Any) -> None:
    """Let every parameter find its moments: DeepSpeed links all groups after the first one's step,
    when the others have none yet."""
    optimizer._hp_optimizer_states_linked = False
    optimizer._lazy_init_hp_params_optimizer_state()


def _fill_stage_1_2(optimizer: Any, names: dict[int, str], state: dict[str, Any]) -> None:
    for number, flat in enumerate(optimizer.single_partition_of_fp32_groups):
        _make_moments(optimizer.optimizer, flat, state)
        for p in optimizer.bit16_groups[number]:
            whole = state["model"][names[id(p)]]
            p.data.copy_(whole)
            if p._hp_mapping is not None:
                p._hp_mapping.hp_fragment.copy_(_cut(p._hp_mapping.lp_fragment_address, whole))
    if not state["optimizer"]:
        return
    _link(optimizer)
    for group in optimizer.bit16_groups:
        for p in group:
            for kind, wholes in state["optimizer"].items():
                if p._hp_mapping is not None:
                    part = p._hp_mapping.optim_fragment[kind]
                    part.copy_(_cut(p._hp_mapping.lp_fragment_address, wholes[names[id(p)]]))


def _cut(address: Any, whole: Tensor) -> Tensor:
    return whole.flatten()[address.start : address.start + address.numel]


def _fill_stage_3(optimizer: Any, names: dict[int, str], state: dict[str, Any]) -> None:
    rank = torch.distributed.get_rank()
    for number, flat in _swapped_in(optimizer):
        _make_moments(optimizer.optimizer, flat, state)
        begin = 0
        for p, part in zip(
            optimizer.fp16_groups[number], optimizer.fp16_partitioned_groups[number], strict=True
        ):
            end, name = begin + part.ds_numel, names[id(p)]
            _share(flat[begin:end], state["model"][name], rank)
            for kind, wholes in state["optimizer"].items():
                _share(optimizer.optimizer.state[flat][kind][begin:end], wholes[name], rank)
            begin = end
        optimizer._reassign_or_swap_out_partitioned_parameters(number)
    if optimizer.persistent_parameters:
        optimizer.persistent_parameters[0].all_gather(optimizer.persistent_parameters)


def _share(part: Tensor, whole: Tensor, rank: int) -> None:
    """Copy this rank's share of a whole tensor; the last ranks' is padded with zeros."""
    mine = whole.flatten()[rank * part.numel() : (rank + 1) * part.numel()]
    part[: mine.numel()].copy_(mine)
    part[mine.numel() :].zero_()


def _swapped_in(optimizer: Any) -> Iterator[Flat]:
    """Yield the flat tensors of stage 3; those in files are in memory only while they are used."""
    for number in range(len(optimizer.fp32_partitioned_groups_flat)):
        in_files = optimizer._swappable_optimizer_subgroup(number)
        if in_files:
            optimizer._optimizer_states_and_gradient_swap_in(number)
        yield number, optimizer.fp32_partitioned_groups_flat[number]
        if in_files:
            optimizer._optimizer_states_and_gradient_swap_out(number)


def _make_moments(optimizer: torch.optim.Optimizer, flat: Tensor, state: dict[str, Any]) -> None:
    """Create the state that an optimizer creates in its first step."""
    if not state["optimizer"]:
        return
    entry = optimizer.state[flat]
    for kind in state["optimizer"]:
        if kind not in entry:
            entry[kind] = torch.zeros_like(flat, requires_grad=False)
    if isinstance(optimizer, torch.optim.AdamW):
        fused = any(group["fused"] for group in optimizer.param_groups)  # counts on the device
        entry["step"] = torch.tensor(float(state["steps"]), device=flat.device if fused else "cpu")
    elif "exp_avg" in entry:  # DeepSpeed's own Adam counts in whole numbers
        entry["step"] = state["steps"]


def _kinds(optimizer: Any) -> list[str]:
    """Return which moments the optimizer has so far, the same on every rank."""
    kinds = {kind for entry in optimizer.state.values() for kind in entry}
    return sorted(kinds & {name for names in neutral.MOMENTS.values() for name in names})


def scaler(optimizer: Any) -> dict[str, Any]:
    """Return the loss scale as torch's GradScaler would; empty when there is none."""
    scaler = optimizer.loss_scaler
    if not scaler.dynamic:
        return {}
    return {
        "scale": float(scaler.cur_scale),
        "growth_factor": scaler.scale_factor,
        "backoff_factor": 1 / scaler.scale_factor,
        "growth_interval": scaler.scale_window,
        "_growth_tracker": (scaler.cur_iter - scaler.last_overflow_iter - 1) % scaler.scale_window,
    }


def load_scaler(optimizer: Any, state: dict[str, Any]) -> None:
    """Load the loss scale of a GradScaler or of another scaler of DeepSpeed's."""
    scaler = optimizer.loss_scaler
    if scaler.dynamic and state:
        scaler.cur_scale = state["scale"]
        scaler.last_overflow_iter = -1
        scaler.cur_iter = state["_growth_tracker"]


def held(module: torch.nn.Module, optimizer: Any) -> dict[str, list[Tensor]]:
    """Return what this rank holds now, DeepSpeed's own buffers included; see `Strategy.held`."""
    parameters = [p.data for p in module.parameters()]
    parameters += [p.ds_tensor.data for p in module.parameters() if hasattr(p, "ds_tensor")]
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    for bucket in optimizer.ipg_buckets.values():
        buffers = bucket.buffer if isinstance(bucket.buffer, list) else [bucket.buffer]
        gradients += [buffer for buffer in buffers if buffer is not None]
    for averaged in optimizer.averaged_gradients.values():
        gradients += averaged or []
    copies = getattr(optimizer, "fp32_partitioned_groups_flat", None)
    if copies is None:
        copies = optimizer.single_partition_of_fp32_groups
    gradients += [copy.grad for copy in copies if copy.grad is not None]
    gradients += [getattr(optimizer, "grad_partitions_flat_buffer", torch.empty(0))]
    moments = [value for entry in optimizer.state.values() for value in entry.values()]
    swapper = getattr(optimizer, "optimizer_swapper", None)
    if swapper is not None:  # buffers between files and device
        moments += swapper.swap_buffer_manager.all_buffers
        parameters += [optimizer.fp16_groups[0][0].nvme_swapper.buffers]
    return {
        "parameters": parameters,
        "gradients": [gradient.detach() for gradient in gradients],
        "optimizer": [value for value in moments if isinstance(value, Tensor)],
        "fp32_copy": [copy.detach() for copy in copies],
    }
