"""The table that says to which task, optimizer, strategy or device a setting belongs.

A setting that nothing reads is refused, because whoever gave it expects it to have an effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dtlib.errors import BadInput

# Each setting, the setting that decides whether it is read, and the values of that one for which
# it is. The settings that a strategy reads are listed in its own file, as its `options`.
BELONGS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "norm": ("task", ("images",)),
    "width": ("task", ("images",)),
    "augment": ("task", ("images",)),
    "channels_last": ("task", ("images",)),
    "baseline": ("task", ("images",)),
    "loader": ("task", ("images",)),
    "activation_checkpointing": ("task", ("text",)),
    "max_length": ("task", ("text",)),
    "dropout": ("task", ("text",)),
    "tokenizer": ("task", ("text",)),
    "text_column": ("task", ("text",)),
    "pad_vocab_to": ("task", ("text",)),
    "lora": ("task", ("text",)),
    "momentum": ("optimizer", ("sgd",)),
    "adam_eps": ("optimizer", ("adamw",)),
    "lr_floor": ("schedule", ("cosine",)),
    "skip_limit": ("precision", ("fp16",)),
    "compile_mode": ("compile", (True,)),
    "workers": ("loader", ("dataloader",)),
    "nvtx": ("device", ("auto", "cuda")),
    "nvtx_first": ("nvtx", (True,)),
    "nvtx_last": ("nvtx", (True,)),
}


# Values that a strategy refuses itself, whatever else is set; () stands for all but the default.
REFUSED: dict[str, dict[str, tuple[Any, ...]]] = {
    "pipeline": {
        "task": ("images",), "precision": ("fp16",), "compile": (True,),
        "activation_checkpointing": (),
    },
}  # fmt: skip


def without_effect(values: Mapping[str, Any], given: Iterable[str]) -> list[str]:
    """Return, in order, the `given` settings that have no effect with these values."""
    return [key for key in given if key in BELONGS and not _is_read(key, values)]


def refuse_without_effect(values: Mapping[str, Any], given: Iterable[str]) -> None:
    """Refuse the first of the `given` settings that would have no effect.

    Parameters
    ----------
    values
        All settings of a run.
    given
        Names of the settings that the user chose.

    Raises
    ------
    BadInput
        The message names the values with which the setting would have an effect.
    """
    given = [*given]
    for key in without_effect(values, given):
        decides, where = BELONGS[key]
        while decides in BELONGS and not _is_read(decides, values):
            decides, where = BELONGS[decides]
        raise no_effect(key, values, decides, _accepted(key, values, given, decides, where))


def _accepted(
    key: str, values: Mapping[str, Any], given: Iterable[str], decides: str, where: Iterable[Any]
) -> list[Any]:
    """Return the values of `decides` with which nothing is refused next, since all is read."""
    never = REFUSED.get(values["strategy"], {})
    if key in never or not _strategy_takes(decides, values, given):
        return []
    where = [one for one in where if one not in never.get(decides, ())]
    before = {*without_effect(values, given)} - {key}
    after = {one: {*without_effect({**values, decides: one}, given)} for one in where}
    return [one for one in where if after[one] <= before]


def _strategy_takes(decides: str, values: Mapping[str, Any], given: Iterable[str]) -> bool:
    """Say whether the strategy would accept the proposal.

    Strategies refuse two settings themselves: DeepSpeed's stage 3 cannot be compiled, and those
    that shard refuse `channels_last`, so if that is given, the task images is proposed only under
    ddp.
    """
    if decides == "compile":
        return values["strategy"] not in ("zero3", "infinity") and values["zero_stage"] != 3
    return decides != "task" or "channels_last" not in given or values["strategy"] in ("ddp", "dp")


def without(values: Mapping[str, Any], given: Iterable[str], **change: Any) -> str:
    """Return `" without a and b"`, the `given` settings that a change leaves unread, or `""`."""
    return listed(unread(values, given, **change))


def unread(values: Mapping[str, Any], given: Iterable[str], **change: Any) -> list[str]:
    """Return which of the `given` settings nothing reads after a change, step by step."""
    after, gone = {**values, **change}, []
    for key in given:
        decides = key
        while decides in BELONGS and _is_read(decides, after):
            decides = BELONGS[decides][0]
        gone += [key] if decides in BELONGS else []
    return gone


def listed(keys: Iterable[str], before: str = " without ") -> str:
    """Return the names of settings after the words `before`, or `""` if there are none."""
    return (names := " and ".join(keys)) and before + names


def of_task(key: str, task: str) -> bool:
    """Tell whether a setting can have an effect on a task at all."""
    while key in BELONGS:
        key, where = BELONGS[key]
        if key == "task":
            return task in where
    return True


def no_effect(key: str, values: Mapping[str, Any], decides: str, where: Iterable[Any]) -> BadInput:
    """Return the error for a setting without effect; it names the values that would give it one."""
    instead = _one_of(decides, where)
    return BadInput(
        f"{_shown(key, values[key])} has no effect with {_shown(decides, values[decides])};"
        f" leave it out{instead and f', or use {instead}'}."
    )


def _is_read(key: str, values: Mapping[str, Any]) -> bool:
    decides, where = BELONGS[key]
    return values[decides] in where


def _shown(key: str, value: Any) -> str:
    """Return `nvtx` for a switch that is on, `no nvtx` for one that is off."""
    if isinstance(value, bool):
        return key if value else f"no {key}"
    return f"{key} {value}"


def _one_of(decides: str, where: Iterable[Any]) -> str:
    return " or ".join(decides if value is True else str(value) for value in where)
