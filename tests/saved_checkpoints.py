"""Small checkpoints that tests write, the weights that runs end with, and how they compare."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import rng_state


def content(step: int) -> dict:
    return {"weights": torch.full((3,), float(step)), "step": step, "names": ["a", "b"]}


def save(root: Path | str, *steps: int, **settings) -> Checkpoints:
    saved = Checkpoints(root, **settings)
    for step in steps:
        saved.save(step, content(step), {"rng": rng_state()})
    return saved


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def final_weights(run: Path, steps: int) -> dict[str, torch.Tensor]:
    """Weights and moments in the last checkpoint of a run, which is that of its last step."""
    loaded = Checkpoints(run / "checkpoints").latest()
    assert loaded is not None
    assert loaded.step == steps
    return dict(_flatten(loaded.shared["strategy"]))


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of a state by their path: weights and the optimizer's moments."""
    if isinstance(value, torch.Tensor):
        yield name, value
    items = value.items() if isinstance(value, dict) else ()
    for key, item in itertools.chain(items, enumerate(value) if isinstance(value, list) else ()):
        yield from _flatten(item, f"{name}.{key}")


def assert_same_bits(one: Any, other: Any) -> None:
    """Compare whatever a checkpoint holds: tensors bit for bit, all else as it is."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_bits(one[key], other[key])
    elif isinstance(one, list | tuple):
        for here, there in zip(one, other, strict=True):
            assert_same_bits(here, there)
    else:
        assert one == other
