"""Watch what DeepSpeed itself does on the ranks of this launch: refusals, loss scales, saving."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from dtlib.ranks.dist import world
from dtlib.strategies.operators import deepspeed as load_deepspeed
from dtlib.strategies.zero import join

FILE = "weights.bin"
Tensors = dict[str, torch.Tensor]
Collect = Callable[[Tensors, dict[str, tuple[int, ...]]], Tensors]


def verdicts(*configs: dict[str, Any]) -> list[str]:
    """Return what DeepSpeed says of each configuration: "accepted", or its error's text."""
    join(load_deepspeed("cpu"), world())
    from deepspeed.runtime.config import DeepSpeedConfig

    said = []
    for config in configs:
        try:
            DeepSpeedConfig(config)
            said.append("accepted")
        except AssertionError as error:
            said.append(str(error))
    return said


def make_engine(**config: Any) -> Any:
    """Return an engine around a network of five tensors, 98,816 elements, on this rank's CPU."""
    deepspeed = load_deepspeed("cpu")
    join(deepspeed, world())
    torch.manual_seed(0)
    layers = torch.nn.Embedding(256, 64), torch.nn.Linear(64, 256), torch.nn.GELU()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 256))
    adam = {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}
    config = {"train_micro_batch_size_per_gpu": 8, "optimizer": adam, **config}
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    return engine


def take_step(engine: Any, seed: int) -> float:
    """Take a step on random tokens; the target for each of them is the next larger token."""
    generator = torch.Generator().manual_seed(1000 * seed + world().rank)
    x = torch.randint(256, (8, 32), generator=generator)
    loss = F.cross_entropy(engine(x).float().flatten(0, 1), (x.flatten() + 1) % 256)
    engine.backward(loss)
    engine.step()
    return loss.item()


def loss_scales(steps: int, **fp16: Any) -> list[tuple[float, bool]]:
    """Train in fp16 at stage 2: for each step, the loss scale, and whether it was skipped."""
    engine = make_engine(fp16={"enabled": True, **fp16}, zero_optimization={"stage": 2})
    found = []
    for step in range(steps):
        scale = float(engine.optimizer.loss_scale)
        take_step(engine, step)
        found.append((scale, bool(engine.optimizer.overflow)))
    engine.destroy()
    return found


def saved(folder: str, collect: Collect | None = None, **zero: Any) -> dict[str, Any]:
    """Take a step at stage 3, and save in both of DeepSpeed's ways.

    Parameters
    ----------
    folder
        Where the files go.
    collect
        A function of your own, which turns this rank's shares and all shapes, by name, into whole
        tensors on rank 0.
    **zero
        Keys of `zero_optimization` besides the stage.

    Returns
    -------
    dict
        `state_dict`: how many elements the module's `state_dict()` has; `whole`: how many tensors
        stay whole between steps; `written`: whether `save_16bit_model` wrote a file; `rebuilt`:
        whether `zero_to_fp32` made from the checkpoint what that file holds (None without it);
        `collected`: whether `collect` gave the same; `files`: the names in the checkpoint.
    """
    engine = make_engine(zero_optimization={"stage": 3, **zero})
    take_step(engine, 0)
    written = bool(engine.save_16bit_model(folder, FILE))
    engine.save_checkpoint(folder, tag="step1")
    parameters: list[Any] = list(engine.module.parameters())
    collected = collect(*_shares(engine.module)) if collect else None
    found = {
        "state_dict": sum(tensor.numel() for tensor in engine.module.state_dict().values()),
        "whole": sum(bool(p.ds_persist) for p in parameters),
        "written": written,
        "files": sorted(path.name for path in Path(folder, "step1").iterdir()),
        "rebuilt": None,
        "collected": None,
    }
    if written and world().rank == 0:
        whole = torch.load(Path(folder, FILE), map_location="cpu", weights_only=True)
        found["rebuilt"] = _same(_rebuilt(folder), whole)
        found["collected"] = _same(collected or {}, whole) if collect else None
    torch.distributed.barrier()
    engine.destroy()
    return found


def _shares(module: torch.nn.Module) -> tuple[Tensors, dict[str, tuple[int, ...]]]:
    """Return this rank's share of every weight, flat and padded, and the whole shapes."""
    named: dict[str, Any] = dict(module.named_parameters())  # ds_… are DeepSpeed's own marks
    shares = {name: p.ds_tensor.detach().clone() for name, p in named.items()}
    return shares, {name: tuple(p.ds_shape) for name, p in named.items()}


def _rebuilt(folder: str) -> Tensors:
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return get_fp32_state_dict_from_zero_checkpoint(folder, "step1")


def _same(ours: Tensors, theirs: Tensors) -> bool:
    return set(ours) == set(theirs) and all(torch.equal(ours[k], theirs[k]) for k in theirs)
