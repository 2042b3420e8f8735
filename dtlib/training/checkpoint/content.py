"""What a checkpoint contains: tensors and plain values, including random number states."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from dtlib.errors import BadInput

_PLAIN = (bool, int, float, complex, str, bytes, torch.Tensor, torch.dtype, torch.Size, type(None))


def rng_state(device: torch.device | None = None) -> dict[str, Any]:
    """Random number states of Python, numpy and torch in this process.

    Parameters
    ----------
    device
        The model's device; a GPU has a state of its own.

    Returns
    -------
    dict
        Only plain values and tensors: numpy's own state object would not load with
        `weights_only=True`.
    """
    kind, keys, position, has_gauss, cached = numpy.random.get_state()
    numbers = torch.from_numpy(numpy.asarray(keys).astype("int64"))
    state = {
        "python": random.getstate(),
        "numpy": (str(kind), numbers, int(position), int(has_gauss), float(cached)),
        "torch": torch.get_rng_state(),
    }
    if device is not None and device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    if device is not None and device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_rng(state: Mapping[str, Any], device: torch.device | None = None) -> None:
    """Set the states that `rng_state` returned; a GPU's only if there is a GPU."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    numpy.random.set_state((kind, keys.cpu().numpy().astype("uint32"), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if device is not None and device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)
    if device is not None and device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(state["mps"].cpu())


def refuse_foreign(value: Any, name: str = "shared") -> None:
    """Refuse values that `torch.load(…, weights_only=True)` would not read back.

    Raises `BadInput` when something in `value` is neither a tensor nor a plain value; the message
    says where it is.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            refuse_foreign(key, f"a key of {name}")
            refuse_foreign(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple | set) and not isinstance(value, torch.Size):
        for number, item in enumerate(value):
            refuse_foreign(item, f"{name}[{number}]")
    elif not isinstance(value, _PLAIN) or isinstance(value, numpy.generic):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise BadInput(
            f"a checkpoint holds tensors and plain Python values, but {name} is a {kind}: "
            "convert it with .item(), torch.from_numpy() or str() first."
        )


def refuse_other_model(
    expected: Mapping[str, Mapping[str, Any]], saved: Mapping[str, Any], path: Path | str
) -> None:
    """Refuse a checkpoint whose weights belong to another model.

    Parameters
    ----------
    expected
        Shapes of "model" and "moments", by name, of the model that receives the weights.
    saved
        A strategy's state from the checkpoint.
    path
        The checkpoint's path, for the message.

    Raises
    ------
    BadInput
        A name is missing, unexpected, or has another shape (the message names the first), or the
        checkpoint is from an older version, which stored moments by number and not by name.
    """
    if "steps" not in saved:
        raise BadInput(
            f"the checkpoint {path} was written by an older version, whose checkpoints could not"
            " change strategy: finish that run with that version, or start from scratch in another"
            " folder."
        )
    differing = _differing(expected["model"], saved["model"])
    if differing:
        first = differing[0]
        here, there = expected["model"].get(first), saved["model"].get(first)
        raise BadInput(
            f"the checkpoint {path} is of another model: {first} is {_say(there)} "
            f"there and {_say(here)} here (tensors that differ: {len(differing)}); "
            "resume with the settings that the run was started with (its config.json)."
        )


def what_is_incomplete(
    expected: Mapping[str, Mapping[str, Any]], state: Mapping[str, Any]
) -> str | None:
    """Say which tensor of a strategy's state is empty, only a shard, or missing; None if none is.

    Frameworks that shard weights leave empty tensors on each rank in place of the whole ones; a
    checkpoint of those can't be loaded, and nobody would notice until it is needed.
    """
    parts = {"model": (expected["model"], state["model"])}
    parts |= {kind: (expected["moments"], of) for kind, of in state["optimizer"].items()}
    for part, (shapes, tensors) in parts.items():
        for name in _differing(shapes, tensors):
            there, here = _say(tensors.get(name)), _say(shapes.get(name))
            return f"{name} ({part}) is {there} instead of {here}"
    return None


def _differing(expected: Mapping[str, Any], saved: Mapping[str, Any]) -> list[str]:
    names = [*expected, *(name for name in saved if name not in expected)]
    return [name for name in names if _shape(expected.get(name)) != _shape(saved.get(name))]


def _shape(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(getattr(value, "shape", value))


def _say(value: Any) -> str:
    shape = _shape(value)
    if shape is None:
        return "missing"
    return "empty" if 0 in shape else "×".join(map(str, shape)) or "a scalar"
