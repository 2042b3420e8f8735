"""`distributed.yaml`: what a training runs on, how it uses ranks, and what starts the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.cluster.batch.submitting import home
from dtlib.config.files import read_yaml
from dtlib.errors import BadInput, Unavailable, did_you_mean, refuse_unknown

FILE = home() / "slurm" / "distributed.yaml"
ACCELERATORS = ("auto", "cpu", "gpu", "mps", "tpu")
BACKENDS = ("torchrun", "accelerate", "lightning")
AUTO = "auto"
TRAINER = ("accelerator", "strategy", "devices", "nodes")


@dataclass(frozen=True)
class Distributed:
    """The settings of the file; None stands for `auto`.

    Parameters
    ----------
    accelerator
        auto, cpu, gpu or mps; tpu is refused with what it would need.
    strategy
        A strategy of `dtlib train`.
    devices
        Ranks per node.
    nodes
        Number of nodes.
    backend
        torchrun, accelerate or lightning: what starts the ranks.
    tpu_cores
        Lightning 1's name for the devices of a TPU.

    Raises
    ------
    BadInput
        For unknown values, or values that contradict each other.
    Unavailable
        For a TPU.
    """

    accelerator: str = AUTO
    strategy: str = "ddp"
    devices: int | None = None
    nodes: int | None = None
    backend: str | None = None
    tpu_cores: int | None = None

    def __post_init__(self) -> None:
        refuse_unknown("accelerator", self.accelerator, ACCELERATORS)
        if self.backend is not None:
            refuse_unknown("backend", self.backend, BACKENDS)
        for name in ("devices", "nodes", "tpu_cores"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise BadInput(f"{name} is {value}; it must be auto or a whole number, at least 1.")
        if self.tpu_cores is not None and self.accelerator not in (AUTO, "tpu"):
            raise BadInput(
                f"tpu_cores {self.tpu_cores} contradicts accelerator {self.accelerator}; leave one"
                " of them out."
            )
        if self.tpu_cores is not None or self.accelerator == "tpu":
            raise Unavailable(
                "a TPU needs a TPU machine with torch_xla, and a loop that marks its steps for XLA,"
                " which dtlib does not have; use accelerator gpu or cpu."
            )


def read(path: Path = FILE, **flags: Any) -> Distributed:
    """Read a file; a flag that is not None wins over it.

    Raises `BadInput` when the file cannot be read or is not valid; `Unavailable` for a TPU.
    """
    content = read_yaml(path)
    _refuse_keys(content, ("trainer", "backend", "tpu_cores"), path)
    trainer = content.pop("trainer", None) or {}
    if not isinstance(trainer, Mapping):
        raise BadInput(f"{path}: trainer must hold lines of the form key: value.")
    _refuse_keys(trainer, TRAINER, path)
    said = {**trainer, **content, **{k: v for k, v in flags.items() if v is not None}}
    fields: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Distributed)}
    for name, value in said.items():
        if fields[name] is None and value == AUTO:
            value = None
        fields[name] = _whole(value) if name in ("devices", "nodes", "tpu_cores") else value
    return Distributed(**fields)


def _whole(value: Any) -> Any:
    """Turn a flag's text into a number; other text stays, so that the error can quote it."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _refuse_keys(found: Mapping[str, Any], known: tuple[str, ...], path: Path) -> None:
    for key in found:
        if key not in known:
            near = did_you_mean(str(key), known) or f" Choose from {', '.join(known)}."
            raise BadInput(f"{path}: unknown key {key!r}.{near}")
