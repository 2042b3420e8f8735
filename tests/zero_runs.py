"""Small runs under ZeRO for the tests of it, several one after the other on the same ranks."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import dtlib
from dtlib.strategies import operators as ops
from dtlib.training.record import Run
from tests.strategy_runs import SMALL, figures, state

CASES: dict[str, dict[str, Any]] = {
    "zero1": {"strategy": "zero1"},
    "zero2": {"strategy": "zero2"},
    "zero3": {"strategy": "zero3"},
    "offload": {"strategy": "offload"},
    "offload, stage 3": {"strategy": "offload", "zero_stage": 3},
    "infinity": {"strategy": "infinity"},
}


def here() -> list[str]:
    """Return the cases that this machine can run: infinity needs compiled operators."""
    without = ops.not_built(ops.NEEDED["infinity"])
    return [name for name in CASES if not (name == "infinity" and without)]


def train(name: str, **settings: Any) -> Run:
    """Train the case of that name in the world that is there; `data` is a folder of text."""
    with contextlib.redirect_stdout(io.StringIO()):
        return dtlib.train("text", **{**SMALL, "out": name, **CASES[name], **settings})


def train_each(names: list[str], **settings: Any) -> dict[str, dict[str, Any]]:
    """Train several cases one after the other on the ranks that this runs on."""
    found = {}
    for name in names:
        run = train(name, **settings)
        found[name] = {**figures(run), "state": state(run)}
    return found
