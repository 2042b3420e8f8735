"""Layouts of published runs, and what one of them sends along each axis, by formulas: lesson 13."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtlib.sim import mesh
from dtlib.sim.layout import layout
from dtlib.sim.layout_rank import step_of

from .mesh_runs import AXES, Table


class Layout(NamedTuple):
    """A published run; `micro` and `batch` are in sequences, `speed` is TFLOP/s of a GPU."""

    model: str
    data: int
    pipeline: int
    context: int
    tensor: int
    gpus: int
    batch: int
    sequence: int
    speed: int


# Megatron-LM: D. Narayanan et al., SC21, arXiv:2104.04473, table 1 (A100; operations of
# recomputation are counted). Llama 3: A. Grattafiori et al., arXiv:2407.21783, table 4 (H100).
PUBLISHED = [
    Layout("Megatron 18.4B", 32, 1, 1, 8, 256, 1024, 2048, 135),
    Layout("Megatron 39.1B", 32, 2, 1, 8, 512, 1536, 2048, 138),
    Layout("Megatron 145.6B", 24, 8, 1, 8, 1536, 2304, 2048, 148),
    Layout("Megatron 1008B", 6, 64, 1, 8, 3072, 3072, 2048, 163),
    Layout("Llama 3 405B", 64, 16, 1, 8, 8192, 2048, 8192, 430),
    Layout("Llama 3 405B", 128, 16, 1, 8, 16384, 2048, 8192, 400),
    Layout("Llama 3 405B, long texts", 8, 16, 16, 8, 16384, 128, 131072, 380),
]

# GPT-3 on 1024 A100 as Megatron-LM trains it (its README: tensor 8, pipeline 16, batch 1536).
GPT3 = {
    "layers": 96, "width": 12288, "heads": 96, "kv_heads": 96, "sequence": 2048,
    "vocab_size": 51200,
}  # fmt: skip
MESH = {"data": 8, "pipeline": 16, "context": 1, "tensor": 8}
BATCH, GPUS, MEMORY = 1536, 8, 80e9  # sequences; GPUs of a node; bytes of a GPU
INSIDE, BETWEEN = 300.0, 25.0  # GB/s in each direction: NVLink of an A100; 200 Gbit/s a GPU
DATA_INSIDE = ("tensor", "pipeline", "context", "data")  # the outermost first


def of_gpt3(order: tuple[str, ...] = mesh.AXES) -> dict[str, Any]:
    """Everything about that layout, with the axes in this order."""
    step = step_of(accumulation=BATCH // MESH["data"])
    answer: dict[str, Any] = layout(GPT3, MESH, step, MEMORY, GPUS, order)
    return answer


def gigabytes() -> dict[str, float]:
    """What a rank of GPT-3 sends in a step along each axis, in bf16."""
    sent = of_gpt3()["wire"]
    return {axis: sent[axis] / 1e9 for axis in AXES}


def seconds(order: tuple[str, ...] = mesh.AXES) -> dict[str, float]:
    """How long that takes: groups that lie inside a node have faster links."""
    nodes, sent = of_gpt3(order)["nodes"], gigabytes()
    return {axis: sent[axis] / (INSIDE if nodes[axis] == 1 else BETWEEN) for axis in AXES}


def layouts() -> Table:
    """A row for each published run."""
    rows: list[list[Any]] = [
        [one.model, one.gpus, one.tensor, one.context, one.pipeline, one.data,
         one.batch // one.data, one.speed]
        for one in PUBLISHED
    ]  # fmt: skip
    columns = ["", "GPUs", "tensor", "context", "pipeline", "data",
               "sequences per data rank", "TFLOP/s of a GPU"]  # fmt: skip
    caption = "Published runs: Megatron-LM (arXiv:2104.04473), Llama 3 (arXiv:2407.21783)"
    return (rows, columns, caption)


def times() -> Table:
    """What GPT-3 sends, and how long that takes with one axis or another inside a node."""
    size, right, wrong = gigabytes(), seconds(), seconds(DATA_INSIDE)
    rows: list[list[Any]] = [
        [axis, f"{size[axis]:.3g}", f"{right[axis]:.2g}", f"{wrong[axis]:.2g}"] for axis in AXES
    ]
    rows.append(["all", f"{sum(size.values()):.3g}", f"{sum(right.values()):.2g}",
                 f"{sum(wrong.values()):.2g}"])  # fmt: skip
    columns = ["axis", "GB sent by a rank", "s, tensor inside a node", "s, data inside a node"]
    return (
        rows,
        columns,
        "Simulated: a rank of GPT-3's first stage in a step on 1024 A100, bf16, nothing overlaps",
    )
