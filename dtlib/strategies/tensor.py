"""Tensor parallelism through torch's DTensor, with data parallelism over it."""

from __future__ import annotations

from typing import ClassVar

from dtlib.strategies.fsdp import FSDP


class Tensor(FSDP):
    """Each matrix of a GPT is divided among the ranks of the tensor axis; `matrices` says how.

    Along `data` every group of tensor ranks holds a copy of the model and gets samples of its own;
    `fully_shard`, with one shard for each copy, averages the gradients, and it sets the precision
    as under `fsdp`. `fsdp` on a mesh with a tensor axis shards those copies, too.
    """

    options: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[tuple[str, ...]] = ("tensor", "data")

    def sizes(self) -> dict[str, int]:
        mesh = self.plan.mesh
        return {"replicate": mesh.data, "data": 1, "tensor": mesh.tensor}


STRATEGIES = {"tensor": Tensor}
