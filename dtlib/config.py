"""One configuration of a run, filled from Python, from YAML or from the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, did_you_mean
from dtlib.files import read_yaml
from dtlib.plan import BatchPlan, cut

CHOICES = {
    "task": ("images", "text"),
    "optimizer": ("adamw", "sgd"),
    "schedule": ("cosine", "constant"),
    "precision": ("fp32", "bf16", "fp16", "fp64"),
    "norm": ("batch", "group"),
    "loader": ("device", "dataloader"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "wandb": ("offline", "online"),
}

# What a task takes when nothing is said: both tasks learn with it within minutes on two cores.
DEFAULTS: dict[str, dict[str, Any]] = {
    "images": {
        "global_batch": 64, "data": "pictures",
        "model": {"cuda": "resnet18", "other": "resnet18-narrow"},
        "lr": {"adamw": 2e-3, "sgd": 0.05}, "weight_decay": {"adamw": 0.05, "sgd": 5e-4},
    },
    "text": {
        "global_batch": 16, "data": "grammar",
        "model": {"cuda": "nano", "other": "nano"},
        "lr": {"adamw": 1e-3, "sgd": 0.1}, "weight_decay": {"adamw": 0.1, "sgd": 0.0},
    },
}  # fmt: skip
DEFAULT_STEPS = 100

AT_LEAST = {
    "ranks": 1, "steps": 1, "epochs": 1, "global_batch": 1, "micro_batch": 1, "accumulation": 1,
    "momentum": 0, "weight_decay": 0, "warmup_steps": 0, "untimed_steps": 0, "skip_limit": 1,
    "num_samples": 1, "max_length": 2, "width": 1, "workers": 0, "seed": 0, "dropout": 0,
    "lr_floor": 0, "eval_every": 1, "checkpoint_every": 1, "threads": 1,
}  # fmt: skip
AT_MOST = {"seed": 2**32 - 1, "threads": 1024, "timeout": 1e9}  # what numpy, torch and gloo take
NOUN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
ABOVE_ZERO = ("lr", "clip", "bucket_cap_mb", "timeout", "adam_eps")


@dataclass(frozen=True)
class RunConfig:
    """What to train, on what, how, and how it is spread over ranks.

    The learning rate belongs to the global batch: other ranks, the same experiment.

    Parameters
    ----------
    task
        what is learnt: images or text
    model
        resnet18, resnet18-narrow, or a GPT shape: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl
        (default: resnet18-narrow on a CPU, resnet18 on a GPU, nano)
    strategy
        how the task is spread over ranks: single, or ddp (alias dp)
    ranks
        number of processes (default: the world that is there, else 2; 1 for single)
    steps
        optimizer steps to take (default: 100); not together with epochs
    epochs
        passes over the training data; the last incomplete global batch of each is dropped
    global_batch
        samples per optimizer step over all ranks (default: 64 images, 16 windows of text)
    micro_batch
        samples that one rank computes at once (default: derived)
    accumulation
        micro-batches per rank and optimizer step (default: derived, else 1)
    lr
        peak learning rate of the global batch (default: by task and optimizer)
    optimizer
        adamw or sgd
    momentum
        momentum of sgd
    adam_eps
        the epsilon of adamw: gradients far below it, mere rounding, do not move a weight
    weight_decay
        decay of matrices and kernels, never of biases, norms (default: by task and optimizer)
    warmup_steps
        optimizer steps over which the learning rate rises linearly to lr
    schedule
        what the learning rate does after its warm-up: cosine or constant
    lr_floor
        where cosine ends, as a share of lr
    clip
        largest 2-norm of the global gradient; larger ones are scaled down to it
    precision
        fp32, bf16 or fp16 (autocast over fp32 weights; fp16 with loss scaling), or fp64
    skip_limit
        most fp16 steps in a row that may overflow before the run is given up
    compile
        compile the model with torch.compile
    bucket_cap_mb
        size in MiB of DDP's gradient buckets (default: torch's 25)
    num_samples
        number of training pictures, or of training windows of text (default: all there are)
    max_length
        tokens in a window of text (default: the model's context)
    norm
        batch or group: the normalisation of the ResNet
    width
        channels of the ResNet's first stage (default: 64, narrow 16)
    dropout
        share of activations dropped, drawn from (seed, rank, step)
    augment
        crop and flip the training pictures
    seed
        model initialisation, order, augmentation and generated data follow from it
    deterministic
        only deterministic kernels, and one fixed bucket layout, so that a resumed run is bit-equal
    data
        a data set's name or a folder (default: pictures, grammar)
    tokenizer
        gpt2, trained, or a folder (default: what suits the data)
    loader
        device (data lie on the training device) or dataloader (workers hand batches over)
    workers
        worker processes of the dataloader, per rank
    device
        auto, cpu, cuda or mps
    threads
        threads per rank on a CPU; the same number whatever the ranks, so that runs compare
    baseline
        also fit a linear model to the same pictures and report its test accuracy
    untimed_steps
        first steps that enter no timing
    out
        folder of the run (default: a new one in runs/)
    resume
        go on from the last complete checkpoint in out; without one, start
    eval_every
        optimizer steps between evaluations (default: only at the end)
    checkpoint_every
        optimizer steps between checkpoints (default: only at the end)
    tensorboard
        also write the steps and evaluations as TensorBoard events, in the run's folder
    wandb
        also log them to Weights & Biases: offline (in the run's folder) or online
    timeout
        seconds that a collective may take before the run is given up

    Raises
    ------
    BadInput
        when a value is unknown or out of range, or two values contradict each other.
    """

    task: str
    model: str | None = None
    strategy: str = "ddp"
    ranks: int | None = None
    steps: int | None = None
    epochs: int | None = None
    global_batch: int | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    lr: float | None = None
    optimizer: str = "adamw"
    momentum: float = 0.9
    adam_eps: float = 1e-5
    weight_decay: float | None = None
    warmup_steps: int = 0
    schedule: str = "cosine"
    lr_floor: float = 0.1
    clip: float | None = None
    precision: str = "fp32"
    skip_limit: int = 20
    compile: bool = False
    bucket_cap_mb: float | None = None
    num_samples: int | None = None
    max_length: int | None = None
    norm: str = "batch"
    width: int | None = None
    dropout: float = 0.0
    augment: bool = True
    seed: int = 0
    deterministic: bool = False
    data: str | None = None
    tokenizer: str | None = None
    loader: str = "device"
    workers: int = 0
    device: str = "auto"
    threads: int = 1
    baseline: bool = False
    untimed_steps: int = 2
    out: str | None = None
    resume: bool = False
    eval_every: int | None = None
    checkpoint_every: int | None = None
    tensorboard: bool = False
    wandb: str | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for key, choices in CHOICES.items():
            _refuse_unknown(key, getattr(self, key), choices)
        for key, bound in AT_LEAST.items():
            value = getattr(self, key)
            if value is not None and not bound <= value < math.inf:
                finite = " and finite" if value == math.inf else ""
                raise BadInput(f"{key} is {value}; it must be at least {bound}{finite}.")
        for key, most in AT_MOST.items():
            if getattr(self, key) > most:
                raise BadInput(f"{key} is {getattr(self, key)}; it must be at most {most:.10g}.")
        for key in ABOVE_ZERO:
            value = getattr(self, key)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise BadInput(f"{key} is {value}; it must be a number above 0.")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if self.steps is not None and self.epochs is not None:
            numbers = f"steps {self.steps} and epochs {self.epochs}"
            raise BadInput(f"{numbers} both say when to stop; give one.")
        if self.precision == "fp64" and self.device == "mps":
            raise BadInput("precision fp64 does not exist on mps; use fp32, or device cpu.")
        if self.dropout >= 1:
            raise BadInput(f"dropout is {self.dropout}; it must be below 1.")
        if self.task == "text" and self.width is not None:
            raise BadInput(f"width {self.width} belongs to images; text takes a model's name.")
        if self.resume and self.out is None:
            raise BadInput("resume needs out, the folder of the run to go on with.")
        if self.loader == "device" and self.workers:
            raise BadInput(f"workers {self.workers} serve loader dataloader; loader is device.")

    def resolved(self, device_type: str) -> RunConfig:
        """Return this configuration with every default that follows from the task filled in."""
        table = DEFAULTS[self.task]
        fill: dict[str, Any] = {
            "model": table["model"]["cuda" if device_type == "cuda" else "other"],
            "data": table["data"],
            "lr": table["lr"][self.optimizer],
            "weight_decay": table["weight_decay"][self.optimizer],
            "steps": DEFAULT_STEPS if self.epochs is None else None,
        }
        missing = {key: value for key, value in fill.items() if getattr(self, key) is None}
        return dataclasses.replace(self, **missing)

    def plan(self, world_size: int) -> BatchPlan:
        """Return how the global batch is cut over `world_size` ranks; see `plan.cut`."""
        total = self.global_batch
        if total is None and not (self.micro_batch and self.accumulation):
            total = DEFAULTS[self.task]["global_batch"]
        return cut(total, self.micro_batch, self.accumulation, world_size)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Make a configuration from plain values, such as YAML's, in which `1e-5` is a string.

        Raises
        ------
        BadInput
            for an unknown key (the nearest right one is named), or a value of another type.
        """
        hints = typing.get_type_hints(cls)
        for key in mapping:
            if key not in hints:
                near = did_you_mean(str(key), hints) or " `dtlib train --help` lists them all."
                raise BadInput(f"unknown key {key!r}.{near}")
        if "task" not in mapping:
            raise BadInput("the configuration names no task; add task: images or task: text.")
        return cls(**{key: _typed(key, value, hints[key]) for key, value in mapping.items()})

    @classmethod
    def from_yaml(cls, path: str | Path) -> RunConfig:
        """Read a configuration from a YAML file; see `from_mapping`."""
        return cls.from_mapping(read_yaml(path))


def _refuse_unknown(what: str, word: Any, choices: Any) -> None:
    if word not in choices and (what, word) != ("wandb", None):
        near = did_you_mean(str(word), choices)
        raise BadInput(f"unknown {what} {word!r}; there is {', '.join(choices)}.{near}")


def _typed(key: str, value: Any, hint: Any) -> Any:
    """Return `value` as the field's type: YAML reads `1e-5` as text and `3` as an integer."""
    kinds = typing.get_args(hint) or (hint,)
    if type(value) in kinds:
        return value
    for kind in (int, float):
        if kind in kinds and type(value) in (int, float, str):
            with contextlib.suppress(ValueError, OverflowError):
                number = float(value)
                if kind is float or number.is_integer():
                    return kind(number)
    raise BadInput(f"{key} is {value!r}; it must be {NOUN[kinds[0]]}.")
