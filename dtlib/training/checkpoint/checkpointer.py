"""A run's checkpoints: the one that it resumes from, and those that it writes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import dist
from dtlib.strategies.optim import learning_rate
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import (
    refuse_other_model,
    restore_rng,
    rng_state,
    what_is_incomplete,
)

if TYPE_CHECKING:
    from dtlib.strategies.base import Strategy

# Settings that determine the next step; if one of them differs, it is another experiment.
SAME_ON_RESUME = (
    "task", "model", "lora", "width", "norm", "data", "text_column", "tokenizer", "pad_vocab_to",
    "max_length", "num_samples", "augment", "global_batch", "seed", "optimizer", "precision",
    "dropout",
)  # fmt: skip
# Settings that may change, with an effect on how the run continues: a resumed start names them.
NAMED_ON_RESUME = (
    "lr", "momentum", "adam_eps", "weight_decay", "warmup_steps", "schedule", "lr_floor", "clip",
    "compress_gradients", "deepspeed",
)  # fmt: skip
# These affect dropout and batch norm: other random numbers, means over other micro-batches.
CUT = ("world_size", "mesh", "micro_batch", "pipeline_schedule")
# Where a cosine schedule ends; at a constant rate, they only say when to stop.
LENGTH = ("steps", "epochs")


@dataclass
class Progress:
    """How far a run is: steps taken, those of them that moved the weights, and the last loss."""

    step: int = 0
    optimizer_steps: int = 0
    skipped_steps: int = 0
    loss: float = math.nan

    def due(self, every: int | None) -> bool:
        """Tell whether something that happens every `every` steps is due now."""
        return bool(every and self.step % every == 0)


class Checkpointer:
    """Loads and saves the complete state of a run; every rank calls each method.

    Parameters
    ----------
    folder
        The run's folder.
    strategy
        The strategy, which holds the state of the model and of the optimizer.
    settings
        The settings that are compared with the checkpoint's when a run resumes.
    """

    def __init__(self, folder: Path, strategy: Strategy, settings: Mapping[str, Any]) -> None:
        self._folder, self._strategy, self._settings = folder, strategy, dict(settings)
        self._checkpoints = Checkpoints(self._settings.get("checkpoints") or folder / "checkpoints")
        self._saved_at = -1

    def resume(self) -> Progress | None:
        """Load the last complete checkpoint, and return how far the run got; None without one.

        Raises `BadInput` when it belongs to another run or another model.
        """
        loaded = self._checkpoints.latest()
        progress = None
        if loaded is not None:
            refuse_another_run(self._folder, loaded.shared["config"], self._settings)
            state = loaded.shared["strategy"]
            refuse_other_model(self._strategy.shapes, state, loaded.path)
            self._strategy.load_state(state)
            progress = Progress(**loaded.shared["progress"])
            self._saved_at = progress.step
            if loaded.rank_state is not None:
                restore_rng(loaded.rank_state["rng"], self._strategy.world.device)
        if dist.is_main():
            if loaded is None or progress is None:
                print(f"{self._folder} has no checkpoint yet, so training starts from scratch.")
            else:
                changed = self._changed(loaded.shared["config"], progress)
                after = f"after step {progress.step}, from {loaded.name}"
                print(f"Resuming {self._folder} {after}.{changed}")
        return progress

    def save(self, progress: Progress, held_out_loss: float | None) -> None:
        """Write a checkpoint of this step, unless it already has one.

        Parameters
        ----------
        progress
            How far the run is.
        held_out_loss
            The loss of an evaluation after this step; the checkpoint with the lowest one is kept.
        """
        if self._saved_at == progress.step:
            return
        self._strategy.share_buffers()
        state = self._strategy.state()
        wrong = dist.broadcast_object(what_is_incomplete(self._strategy.shapes, state))
        if wrong:
            raise DtlibError(f"no checkpoint of step {progress.step} was written: {wrong}.")
        shared = {
            "strategy": state,
            "progress": dataclasses.asdict(progress),
            "config": self._settings,
        }
        own = {"rng": rng_state(self._strategy.world.device)}
        self._checkpoints.save(progress.step, shared, own, held_out_loss)
        self._saved_at = progress.step

    def _changed(self, saved: Mapping[str, Any], progress: Progress) -> str:
        """Say which settings differ from the checkpoint's and change how the run continues."""
        now = self._settings
        names = list(NAMED_ON_RESUME)
        if now["schedule"] == "cosine":
            names += LENGTH
        if now["dropout"] or (now["task"] == "images" and now["norm"] == "batch"):
            names += CUT
        differ = [name for name in names if name in saved and saved[name] != now[name]]
        if not differ:
            return ""
        said = ", ".join(f"{name} was {saved[name]} and is now {now[name]}" for name in differ)
        rates = []
        for each in (saved, now):
            if each["steps"]:
                config: Any = SimpleNamespace(**each)  # has the settings that the rate depends on
                rate = learning_rate(config, progress.optimizer_steps, config.steps)
                rates.append(f"{rate:.3g}")
        if len(set(rates)) == 2:
            said += f"; the learning rate of the next step is {rates[1]} instead of {rates[0]}"
        return f" The settings have changed: {said}."


def refuse_another_run(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse settings that make another experiment of the run whose settings were saved."""
    for key in SAME_ON_RESUME:
        if saved.get(key) != now[key]:  # a run of before the setting existed has its default
            kind = "another model's" if key == "model" else "another run's"
            raise BadInput(
                f"the checkpoint in {folder} is {kind}: {key} was {saved.get(key)} and is now"
                f" {now[key]}; resume with the settings in its config.json, or choose another out."
            )
