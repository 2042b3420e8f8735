"""The values that a run's settings may take, and their defaults."""

from __future__ import annotations

import contextlib
import math
import typing
from collections.abc import Mapping
from typing import Any

from dtlib.config.mesh import Mesh
from dtlib.config.pipelines import SCHEDULES
from dtlib.errors import BadInput, counted, did_you_mean, refuse_unknown

AUTO = "auto"  # a micro-batch that is chosen by what fits
RUNS = "runs"  # the folder of runs that are given no other
HF = "hf:"  # begins the name of a model that transformers loads

CHOICES = {
    "task": ("images", "text"),
    "optimizer": ("adamw", "sgd"),
    "schedule": ("cosine", "constant"),
    "precision": ("fp32", "tf32", "bf16", "fp16", "fp64"),
    "norm": ("batch", "group"),
    "loader": ("device", "dataloader"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "activation_checkpointing": ("none", "full", "selective"),
    "pipeline_schedule": tuple(SCHEDULES),
    "compile_mode": ("default", "reduce-overhead", "max-autotune"),
    "compress_gradients": ("bf16",),
    "wandb": ("offline", "online"),
}

# The defaults of each task: with them, both learn within minutes on two cores.
DEFAULTS: dict[str, dict[str, Any]] = {
    "images": {
        "global_batch": 64,
        "data": "pictures",
        "model": {"cuda": "resnet18", "other": "resnet18-narrow"},
        "lr": {"adamw": 2e-3, "sgd": 0.05},
        "weight_decay": {"adamw": 0.05, "sgd": 5e-4},
    },
    "text": {
        "global_batch": 16,
        "data": "grammar",
        "model": {"cuda": "nano", "other": "nano"},
        "lr": {"adamw": 1e-3, "sgd": 0.1},
        "weight_decay": {"adamw": 0.1, "sgd": 0.0},
    },
}
DEFAULT_STEPS = 100
# For weights that have been trained already (AdamW's is that of transformers' Trainer), and for
# adapters beside them (AdamW's is that of LoRA's authors, Hu et al. 2021, for GPT-2).
FINE_TUNING_LR = {"adamw": 5e-5, "sgd": 1e-2}
LORA_LR = {"adamw": 2e-4, "sgd": 1e-1}

AT_LEAST = {
    "ranks": 1, "steps": 1, "epochs": 1, "global_batch": 1, "micro_batch": 1, "accumulation": 1,
    "momentum": 0, "weight_decay": 0, "warmup_steps": 0, "untimed_steps": 0, "skip_limit": 1,
    "num_samples": 1, "max_length": 2, "width": 1, "workers": 0, "seed": 0, "dropout": 0,
    "lr_floor": 0, "eval_every": 1, "checkpoint_every": 0, "threads": 1, "lora": 1,
    "pad_vocab_to": 1, "zero_stage": 1, "shard_ranks": 1, "nvtx_first": 1, "nvtx_last": 1,
}  # fmt: skip
AT_MOST = {  # the limits of numpy, torch and gloo, and the number of ZeRO's stages
    "seed": 2**32 - 1,
    "threads": 1024,
    "timeout": 1e9,
    "zero_stage": 3,
    "lr_floor": 1,
}
NOUN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
MAY_BE_NONE = ("compress_gradients", "wandb")
ABOVE_ZERO = ("lr", "clip", "bucket_cap_mb", "timeout", "adam_eps")


def refuse_out_of_range(values: Mapping[str, Any]) -> None:
    """Refuse the first value that is unknown, too small, too large or not finite; None passes.

    Raises `BadInput`; the message has the value and what is allowed.
    """
    for key, choices in CHOICES.items():
        if not (values[key] is None and key in MAY_BE_NONE):
            refuse_unknown(key, values[key], choices)
    for key, bound in AT_LEAST.items():
        value = None if key == "micro_batch" and values[key] == AUTO else values[key]
        if isinstance(value, str):
            raise BadInput(f"{key} is {value!r}; it must be {NOUN[int]}, or {AUTO}.")
        if value is not None and not bound <= value < math.inf:
            finite = " and finite" if value == math.inf else ""
            raise BadInput(f"{key} is {value}; it must be at least {bound}{finite}.")
    for key, most in AT_MOST.items():
        if values[key] is not None and values[key] > most:
            raise BadInput(f"{key} is {values[key]}; it must be at most {most:.10g}.")
    if empty := [key for key, value in values.items() if value == ""]:
        raise BadInput(f"{empty[0]} is empty; give a value, or leave it out.")
    if "://" in (values["out"] or ""):
        raise BadInput(
            f"out is {values['out']}, but a run appends to its records, which only a folder can do:"
            f" give a folder as out, and {values['out']} as checkpoints."
        )
    if values["micro_batch"] == AUTO and values["accumulation"] is not None:
        raise BadInput(
            f"micro_batch auto chooses the accumulation too, and accumulation is"
            f" {values['accumulation']}; leave out one of them."
        )
    for key in ABOVE_ZERO:
        value = values[key]
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise BadInput(f"{key} is {value}; it must be a number above 0.")
    if values["epochs"] is None:  # otherwise the data decide
        refuse_long_warmup(values["warmup_steps"], values["steps"] or DEFAULT_STEPS)


def refuse_contradictions(values: Mapping[str, Any]) -> None:
    """Refuse two values that contradict each other; the message of the `BadInput` has both."""
    if values["steps"] is not None and values["epochs"] is not None:
        numbers = f"steps {values['steps']} and epochs {values['epochs']}"
        raise BadInput(f"{numbers} both say when to stop; give one.")
    if values["precision"] == "fp64" and values["device"] == "mps":
        raise BadInput("precision fp64 does not exist on mps; use fp32, or device cpu.")
    if values["dropout"] >= 1:
        raise BadInput(f"dropout is {values['dropout']}; it must be below 1.")
    if values["resume"] and values["out"] is None:
        raise BadInput("resume needs out, the folder of the run to resume.")
    if values["mesh"] is not None:
        if values["ranks"] is not None:
            Mesh.of(values["mesh"]).refuse_ranks(values["ranks"])
        if values["shard_ranks"] is not None:
            raise BadInput(
                f"mesh {values['mesh']} and shard_ranks {values['shard_ranks']} both say which"
                " ranks share a copy of the weights; give only mesh, with replicate=N for N copies."
            )
    if values["nvtx_last"] < values["nvtx_first"]:
        steps = f"nvtx_first {values['nvtx_first']} and nvtx_last {values['nvtx_last']}"
        raise BadInput(f"{steps} leave no step to record; the last may not be before the first.")


def default_lr(values: Mapping[str, Any]) -> float:
    """Return the learning rate of a run that is given none; trained weights need a lower one."""
    rates = DEFAULTS[values["task"]]["lr"]
    if (values["model"] or "").startswith(HF):
        rates = LORA_LR if values["lora"] else FINE_TUNING_LR
    return rates[values["optimizer"]]


def refuse_long_warmup(warmup_steps: int, total: int) -> None:
    """Refuse a warm-up that the run's `total` steps do not complete."""
    if warmup_steps > total:
        raise BadInput(
            f"warmup_steps is {warmup_steps}, but the run has {counted(total, 'step')}, so the"
            f" learning rate would never reach lr; use a warm-up of at most {total}, or more steps."
        )


def typed(key: str, value: Any, hint: Any) -> Any:
    """Return `value` as the field's type: YAML reads `1e-5` as text and `3` as an integer."""
    kinds = typing.get_args(hint) or (hint,)
    word = int in kinds and str in kinds  # a number, or `auto`
    if (type(value) in kinds and not (word and type(value) is str)) or (word and value == AUTO):
        return value
    for kind in (int, float):
        if kind in kinds and type(value) in (int, float, str):
            with contextlib.suppress(ValueError, OverflowError):
                if kind is int and str(value).strip().lstrip("+-").isdecimal():
                    return int(value)  # as a float, a long one would lose digits
                number = float(value)
                if kind is float or number.is_integer():
                    return kind(number)
    raise BadInput(
        f"{key} is {value!r}; it must be {NOUN[kinds[0]]}{f', or {AUTO}' if word else ''}."
    )


def all_typed(mapping: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return plain values, such as YAML's, as the types of a configuration's fields.

    A mesh may be text or a mapping, and stays as it is.

    Raises `BadInput` for an unknown key, naming the nearest, or a value of another type.
    """
    hints = typing.get_type_hints(kind)
    for key in mapping:
        if key not in hints:
            near = did_you_mean(str(key), hints) or " `dtlib train --help` lists them all."
            raise BadInput(f"unknown key {key!r}.{near}")
    if "task" not in mapping:
        raise BadInput("the configuration names no task; add task: images or task: text.")
    return {
        key: value if key == "mesh" else typed(key, value, hints[key])
        for key, value in mapping.items()
    }
