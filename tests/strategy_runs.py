"""What tests of all strategies share: which there are, and small runs of them on ranks."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from typing import Any

import dtlib
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.record import Run

# Each strategy with the options that change how it shards or sends. Those of one process share its
# ranks, as runs of a notebook's cell do: what one leaves behind would meet the next.
CASES: dict[str, dict[str, Any]] = {
    "ddp": {"strategy": "ddp"},
    "ddp, small buckets": {"strategy": "ddp", "bucket_cap_mb": 0.1, "static_graph": True},
    "fsdp": {"strategy": "fsdp"},
    "fsdp, one copy a rank": {"strategy": "fsdp", "shard_ranks": 1},
    "fsdp, offloaded": {"strategy": "fsdp", "cpu_offload": True},
    "accelerate": {"strategy": "accelerate"},
    "lightning": {"strategy": "lightning"},
}
if importlib.util.find_spec("deepspeed"):
    ZERO = {name: {"strategy": name} for name in ("zero1", "zero2", "zero3", "offload")}
else:  # on macOS, or where the extra is not installed
    ZERO = {}
ALL = {"single": {"strategy": "single"}, **CASES, **ZERO}

SMALL = {
    "model": "nano",
    "tokenizer": "characters",
    "max_length": 8,
    "global_batch": 12,
    "steps": 4,
    "schedule": "constant",
}


def train(name: str, **settings: Any) -> Run:
    """Train the case of that name in the world that is there; `data` is a folder of text."""
    with contextlib.redirect_stdout(io.StringIO()):
        return dtlib.train("text", **{**SMALL, "out": name, **ALL[name], **settings})


def train_each(names: list[str], **settings: Any) -> dict[str, dict[str, Any]]:
    """Train several cases one after the other on the ranks that this runs on."""
    return {name: figures(train(name, **settings)) for name in names}


def figures(run: Run) -> dict[str, Any]:
    """Return what runs are compared by."""
    return {
        "losses": [line["loss"] for line in run.history],
        "norms": [line.get("grad_norm") for line in run.history],
        "rates": [line["lr"] for line in run.history],
        "held_out": run.summary["evaluation"]["valid_loss"],
        "parameters": run.summary["parameters"],
    }


def state(run: Run) -> dict[str, Any]:
    """Return the strategy's state in the run's last checkpoint."""
    loaded = Checkpoints(run.folder / "checkpoints").latest()
    assert loaded is not None
    return loaded.shared["strategy"]
