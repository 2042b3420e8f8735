"""The numbers of a run that the formulas need."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from dtlib.config.values import HF
from dtlib.measure.ledger import Page
from dtlib.sim import shapes, states, tensors
from dtlib.sim.estimate import Setup
from dtlib.training.record import Run

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """A finished run from the view of one of its ranks.

    Attributes
    ----------
    parameters
        Ψ.
    tensors
        Sizes of the parameters in the model's order; empty for an unknown model.
    """

    config: dict[str, Any]
    parameters: int
    tensors: tuple[tuple[str, Sizes], ...]
    page: Page

    @classmethod
    def of(cls, run: Run, rank: int = 0) -> Facts:
        """Read a run that was measured by the ledger."""
        page = Page.from_dict(run.summary["ledger"][rank])
        parameters = run.summary["parameters"]
        config = {**run.config, "ranks": page.world_size}
        return cls(config, parameters, tuple(_tensors(config, parameters)), page)

    def __getattr__(self, name: str) -> Any:
        """Return a setting of the run."""
        try:
            return self.config[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def stage(self) -> int:
        """ZeRO's stage; 0 for strategies without DeepSpeed."""
        if self.strategy not in states.STAGES:
            return 0
        return self.zero_stage or int(self.zero["stage"])

    @property
    def zero(self) -> dict[str, Any]:
        """DeepSpeed's own configuration of ZeRO."""
        return self.framework["deepspeed"]["zero_optimization"]

    @property
    def recipe(self) -> tuple[int, int, int, int]:
        """Bytes of a weight, a gradient, its fp32 copy and a moment."""
        return states.RECIPES[states.recipe(self.strategy, self.precision)]

    @property
    def groups(self) -> tuple[list[int], list[int]]:
        """Elements of the tensors of the optimizer's two groups: with and without decay."""
        decayed = [prod(sizes) for _, sizes in self.tensors if len(sizes) > 1]
        return decayed, [prod(sizes) for _, sizes in self.tensors if len(sizes) < 2]

    def setup(self) -> Setup | None:
        """Describe the run for `dtlib.sim`; None for a model that it doesn't know."""
        if not self.tensors:
            return None
        text = self.task == "text"
        same = ("model", "ranks", "micro_batch", "accumulation", "precision", "optimizer",
                "max_length", "norm")  # fmt: skip
        stages = ("mesh", "pipeline_schedule") if self.strategy == "pipeline" else ()
        return Setup(
            **{name: getattr(self, name) for name in stages},
            **{name: getattr(self, name) for name in same},
            strategy=states.ALIASES.get(self.strategy, self.strategy),
            vocab_size=self.tensors[0][1][0] if text else shapes.GPT2_VOCABULARY,
            dropout=text and self.dropout > 0,
            checkpointing=self.config.get("activation_checkpointing", "none"),  # older runs: none
            loss="auto" if self.config.get("chunked_loss") else "whole",
        )


def _tensors(config: dict[str, Any], parameters: int) -> list[tuple[str, Sizes]]:
    """Return the model's parameters; the size of a GPT's vocabulary follows from Ψ."""
    if config["model"].startswith(HF):  # its tensors are in another program's words
        return []
    if config["task"] == "images":
        found = tensors.resnet(config["width"] or shapes.RESNET[config["model"]])
    else:
        shape = shapes.GPT[config["model"]]
        size = shape["layers"], shape["width"], shape["context"]
        vocabulary = (parameters - tensors.count(tensors.gpt(*size, 0))) // shape["width"]
        found = tensors.gpt(*size, vocabulary)
    return found if tensors.count(found) == parameters else []
