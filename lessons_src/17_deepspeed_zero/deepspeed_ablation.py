"""Change precision, Adam's implementation and ZeRO's stage one at a time.

All engines exist side by side and take their steps in turn, so that a busy moment of the machine
slows every setting. The steps of the first two rounds are not timed; the ledger watches the second.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from dtlib.measure import ledger
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks.dist import world
from dtlib.strategies.deepspeed_state import held
from dtlib.strategies.operators import deepspeed as load_deepspeed
from dtlib.strategies.zero import join

KINDS = ("parameters", "gradients", "optimizer", "fp32_copy", "activations")
CONTEXT, MICRO_BATCH = 64, 8


def ablate(
    settings: Sequence[Mapping[str, Any]], width: int = 256, timed: int = 4
) -> list[dict[str, Any]]:
    """Time and weigh a small GPT under DeepSpeed with each of the settings.

    Parameters
    ----------
    settings
        `precision` ("fp32" or "bf16"), `optimizer` ("plain": torch's AdamW, a loop over tensors;
        "fused": one kernel) and `stage`, which is None for torch alone, without DeepSpeed.
    width
        Of the GPT, which has 4 layers.
    timed
        Steps of each setting that are timed.

    Returns
    -------
    list of dict
        For each setting its `seconds`, one number for each timed step, and `bytes`: the most of
        each kind that the ledger saw in the last step that was not timed.
    """
    device = world().device
    join(load_deepspeed(device.type), world())
    engines = [WatchedEngine(_engine(setting, width, device)) for setting in settings]
    x = torch.randint(256, (MICRO_BATCH, CONTEXT), device=device)
    for engine in engines:  # the first step makes the optimizer's state
        _step(engine, x)
    weighed = [_weighed(engine, x) for engine in engines]
    rounds = [[_step(engine, x) for engine in engines] for _ in range(timed)]
    by_engine = zip(*rounds, strict=True)
    return [
        {"seconds": list(seconds), "bytes": sizes}
        for seconds, sizes in zip(by_engine, weighed, strict=True)
    ]


def _weighed(engine: WatchedEngine, x: torch.Tensor) -> dict[str, int]:
    with ledger.watch(engine) as page:
        _step(engine, x)
    return {kind: page.most.get(kind, 0) for kind in KINDS}


def _engine(setting: Mapping[str, Any], width: int, device: torch.device) -> Any:
    import deepspeed

    torch.manual_seed(0)
    model = GPT(GPTConfig(256, context=CONTEXT, layers=4, heads=4, width=width)).to(device)
    fused = setting["optimizer"] == "fused"
    adam = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False, fused=fused)
    if setting["stage"] is None:
        return Alone(model, adam)
    config = {
        "train_batch_size": MICRO_BATCH * world().world_size,
        "bf16": {"enabled": setting["precision"] == "bf16"},
        "zero_optimization": {"stage": setting["stage"], "reduce_bucket_size": 500_000},
    }
    return deepspeed.initialize(model=model, optimizer=adam, config=config)[0]


def _step(watched: WatchedEngine, x: torch.Tensor) -> float:
    begin = time.perf_counter()
    logits = watched.engine(x).float().flatten(0, 1)
    loss = F.cross_entropy(logits, (x.flatten() + 1) % 256)
    watched.engine.backward(loss)
    watched.step()
    loss.item()
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return time.perf_counter() - begin


class Alone:
    """Torch without DeepSpeed, behind the calls of an engine."""

    def __init__(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.module, self.optimizer = module, optimizer

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)

    def backward(self, loss: torch.Tensor) -> None:
        """As the engine's."""
        loss.backward()

    def step(self) -> None:
        """As the engine's, which also clears the gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()


class WatchedEngine:
    """An engine of DeepSpeed, at any stage, with what `ledger.watch` needs: `held` and `step`.

    Parameters
    ----------
    engine
        The first thing that `deepspeed.initialize` returns, or `Alone`. Call `step` here, not on
        the engine.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def held(self) -> dict[str, list[torch.Tensor]]:
        """Return what this rank holds now, by kind; see `Strategy.held`."""
        module, optimizer = self.engine.module, self.engine.optimizer
        if hasattr(optimizer, "ipg_buckets"):
            return held(module, optimizer)
        inner = getattr(optimizer, "optimizer", optimizer)  # stage 0: torch's, or a wrapper
        weights = list(module.parameters())
        own = {id(p) for p in weights}
        stepped = [p for group in inner.param_groups for p in group["params"]]
        copies = [p for p in stepped if id(p) not in own]
        moments = [value for entry in inner.state.values() for value in entry.values()]
        return {
            "parameters": [p.detach() for p in weights],
            "gradients": [p.grad for p in [*weights, *copies] if p.grad is not None],
            "optimizer": [value for value in moments if isinstance(value, torch.Tensor)],
            "fp32_copy": [p.detach() for p in copies],
        }

    def step(self) -> None:
        """Take the engine's step."""
        self.engine.step()
