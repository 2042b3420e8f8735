"""Data parallel that sends less, on real ranks: bytes, by formula and counted, and the loss."""

from __future__ import annotations

from typing import Any

from dtlib.data.english import english
from dtlib.scratch import local_steps
from dtlib.scratch.local_steps.compare import CONTEXT, LAYERS, WIDTH
from dtlib.sim import local_steps as formulas
from dtlib.sim.tensors import count, gpt
from dtlib.sim.traffic import data_parallel

from .mesh_runs import Table

RANKS, STEPS, SIZE = 2, 64, 4  # bytes of a number in fp32
NAMES = ("data parallel", "local SGD, H = 16", "DiLoCo, H = 16", "PowerSGD, r = 4")


def run() -> list[dict[str, Any]]:
    """Train in each way on two ranks, from the same start on the same samples."""
    from dtlib.ranks.launcher import launch

    found: list[dict[str, Any]] = launch(
        local_steps.compare, STEPS, NAMES, ranks=RANKS, device="cpu", show=False
    )[0]
    return found


def predicted(name: str) -> float:
    """Bytes that a rank sends in a step on average."""
    shapes = gpt(LAYERS, WIDTH, CONTEXT, len(english().vocabulary))
    number = int(name.split()[-1]) if "=" in name else 0
    if name.startswith("PowerSGD"):
        rows = formulas.power_sgd(shapes, RANKS, number, SIZE)
    elif number:
        rows = formulas.local_steps(count(shapes), RANKS, number, SIZE)
    else:
        rows = data_parallel(count(shapes), RANKS, SIZE)
    return float(sum(row["wire"] for row in rows))


def table(found: list[dict[str, Any]]) -> Table:
    """A row for each way."""
    rows: list[list[Any]] = [
        [row["way"], f"{predicted(row['way']):,.0f}", f"{row['bytes']:,.0f}", f"{row['loss']:.3f}"]
        for row in found
    ]
    columns = ["", "bytes in a step, by the formula", "counted", "loss on other text"]
    return (rows, columns, f"A small GPT after {STEPS} steps on {RANKS} ranks, fp32, measured")
