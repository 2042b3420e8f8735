"""Which setting belongs to which task, optimizer, strategy, device …: the one table of it.

A setting that nothing would read is refused, since whoever gave it believes that it did something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dtlib.errors import BadInput

# A setting, the one that decides whether it is read, and the values with which it is. Those that
# a strategy heeds stand in its own file, as its `options`.
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
    "pad_vocab_to": ("task", ("text",)),
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


def without_effect(values: Mapping[str, Any], given: Iterable[str]) -> list[str]:
    """Return those of the `given` settings that nothing reads beside these values, in order."""
    return [key for key in given if key in BELONGS and not _is_read(key, values)]


def refuse_without_effect(values: Mapping[str, Any], given: Iterable[str]) -> None:
    """Refuse the first of the `given` settings that nothing would read.

    Parameters
    ----------
    values
        All settings of a run.
    given
        Names of those that somebody chose.

    Raises
    ------
    BadInput
        The sentence says with what the setting would have an effect.
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
    """Return those of the values of `decides` that are not refused next: with them all is read."""
    if not _strategy_takes(decides, values, given):
        return []
    before = {*without_effect(values, given)} - {key}
    after = {one: {*without_effect({**values, decides: one}, given)} for one in where}
    return [one for one in where if after[one] <= before]


def _strategy_takes(decides: str, values: Mapping[str, Any], given: Iterable[str]) -> bool:
    """Say whether the strategy would accept the proposal; strategies refuse these two themselves.

    DeepSpeed's stage 3 cannot be compiled, and what shards takes no `channels_last`: for a layout
    that was chosen, pictures are proposed under ddp alone.
    """
    if decides == "compile":
        return values["strategy"] not in ("zero3", "infinity") and values["zero_stage"] != 3
    return decides != "task" or "channels_last" not in given or values["strategy"] in ("ddp", "dp")


def without(values: Mapping[str, Any], given: Iterable[str], **change: Any) -> str:
    """Return `" without a and b"`, those of the `given` that a change leaves unread, or `""`."""
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
    """Return the names of settings after a word, or `""` if there are none."""
    return (names := " and ".join(keys)) and before + names


def of_task(key: str, task: str) -> bool:
    """Tell whether a setting can have an effect on a task at all."""
    while key in BELONGS:
        key, where = BELONGS[key]
        if key == "task":
            return task in where
    return True


def no_effect(key: str, values: Mapping[str, Any], decides: str, where: Iterable[Any]) -> BadInput:
    """Say that a setting means nothing beside the one that decides, and with which it would."""
    instead = _one_of(decides, where)
    return BadInput(
        f"{_shown(key, values[key])} means nothing to {_shown(decides, values[decides])};"
        f" leave it out{instead and f', or use {instead}'}."
    )


def _is_read(key: str, values: Mapping[str, Any]) -> bool:
    decides, where = BELONGS[key]
    return values[decides] in where


def _shown(key: str, value: Any) -> str:
    """`nvtx` is said of a switch that is on, `no nvtx` of one that is off."""
    if isinstance(value, bool):
        return key if value else f"no {key}"
    return f"{key} {value}"


def _one_of(decides: str, where: Iterable[Any]) -> str:
    return " or ".join(decides if value is True else str(value) for value in where)
