"""Small checkpoints that tests write, and what then lies in a folder."""

from pathlib import Path

import torch

from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import rng_state


def content(step: int) -> dict:
    return {"weights": torch.full((3,), float(step)), "step": step, "names": ["a", "b"]}


def save(root: Path, *steps: int, **settings) -> Checkpoints:
    saved = Checkpoints(root, **settings)
    for step in steps:
        saved.save(step, content(step), {"rng": rng_state()})
    return saved


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())
