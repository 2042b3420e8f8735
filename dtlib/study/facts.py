"""The numbers of a run that the formulas need."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

from dtlib.config.mesh import Mesh, arranged
from dtlib.config.values import HF
from dtlib.measure.ledger import Page
from dtlib.sim import shapes, states, tensor_parallel, tensors
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

    @functools.cached_property
    def mesh(self) -> Mesh:
        """How the ranks were arranged; a run of before there were meshes had none."""
        return arranged({"mesh": None, "shard_ranks": None, **self.config}, self.ranks)

    @property
    def place(self) -> dict[str, int]:
        """This rank's coordinates on the mesh."""
        return self.mesh.coordinates(self.page.rank)

    @property
    def data_ranks(self) -> int:
        """N without the tensor axis: the ranks that hold or shard the same parts."""
        return self.mesh.data_size

    @property
    def shard_ranks(self) -> int | None:
        """Ranks of a shard group of fsdp; a strategy without one has None."""
        return self.mesh.data if self.strategy == "fsdp" else None

    @property
    def shards(self) -> int:
        """Ranks among which what is sharded is divided."""
        return {"fsdp": self.mesh.data, "tensor": 1}.get(self.strategy, self.ranks)

    @property
    def part(self) -> int:
        """Elements of the largest part that a tensor rank holds; Ψ without that axis."""
        if self.mesh.tensor == 1:
            return self.parameters
        return tensors.count(tensor_parallel.part(self.tensors, self.mesh.tensor))

    @property
    def own(self) -> list[tuple[str, Sizes]]:
        """Sizes of the part of each tensor that this rank holds, before it is sharded."""
        return tensor_parallel.part(self.tensors, self.mesh.tensor, self.place["tensor"])

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
        same = ("model", "ranks", "mesh", "micro_batch", "accumulation", "precision", "optimizer",
                "max_length", "norm")  # fmt: skip
        stages = ("pipeline_schedule",) if self.strategy == "pipeline" else ()
        settings: dict[str, Any] = {name: self.config.get(name) for name in (*same, *stages)}
        return Setup(
            **settings,
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
