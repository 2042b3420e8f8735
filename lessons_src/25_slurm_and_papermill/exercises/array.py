"""`array_run`: from the index of an array's task to the settings of one run of a study."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from dtlib.learn.checking import Passed, Verdict, Wrong, stopped_here

Axes = Mapping[str, list[Any]]

CASES: tuple[tuple[Axes, int], ...] = (
    ({"ranks": [1, 2, 4]}, 1),
    ({"ranks": [1, 2, 4]}, 2),
    ({"ranks": [1, 2], "precision": ["fp32", "bf16"]}, 1),
    ({"ranks": [1, 2, 4], "precision": ["fp32", "bf16"], "bucket": [1, 25]}, 3),
)


def reference(index: int, axes: Axes, repeats: int) -> dict[str, Any] | None:
    """The settings of run `index`, with its repeat; None beyond the last."""
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return {**settings, "repeat": index} if index < repeats else None


def check(function: Callable[..., Any]) -> Verdict:
    """Ask for every index of four studies, and look at the runs together."""
    asked = 0
    for axes, repeats in CASES:
        wanted = [
            {**dict(zip(axes, values, strict=True)), "repeat": repeat}
            for values in itertools.product(*axes.values())
            for repeat in range(repeats)
        ]
        case = " × ".join(f"{len(values)} {name}" for name, values in axes.items())
        case += f" × {repeats} repeat{'s' * (repeats > 1)}"
        try:
            got = [_ask(function, index, axes, repeats) for index in range(len(wanted))]
            _judge(got, wanted, axes, repeats)
            _beyond(function, len(wanted), axes, repeats)
        except Wrong as wrong:
            wrong.case = case
            raise
        asked += len(wanted)
    return Passed(measures=(("runs, each once", asked, asked, "runs"),))


def _ask(function: Callable[..., Any], index: int, axes: Axes, repeats: int) -> Any:
    mine = copy.deepcopy(dict(axes))
    try:
        got = function(index, mine, repeats)
    except Exception as error:
        if index == 0 and isinstance(error, IndexError):
            raise Wrong("first", message=str(error)) from None
        raise stopped_here(error, f"index {index}") from None
    if mine != dict(axes):
        raise Wrong("changed")
    return got


def _judge(got: list[Any], wanted: list[dict[str, Any]], axes: Axes, repeats: int) -> None:
    """Whether every run comes once, in whole turns."""
    for index, run in enumerate(got):
        if run is None:
            raise Wrong("none_within" if any(got) else "none", index=index, count=len(got))
        if not isinstance(run, dict):
            raise Wrong("kind", got=type(run).__name__)
        if set(run) != {*axes, "repeat"}:
            keys = ", ".join(map(str, run))
            raise Wrong("keys", got=keys or "no key", want=", ".join([*axes, "repeat"]))
    if 0 not in (run["repeat"] for run in got):
        raise Wrong("repeat_from_1", got=got[-1]["repeat"], repeats=repeats)
    for index, run in enumerate(got):
        if run not in wanted:
            _unknown(run, axes, repeats, index)
    times = [sum(run == other for other in got) for run in wanted]
    if min(times) == 0:
        lost = wanted[times.index(0)]
        twice = wanted[times.index(max(times))]
        key = "in_step" if len(axes) > 1 and repeats == 1 else "lost"
        key = "one_for_all" if max(times) == len(got) else key
        raise Wrong(key, lost=_words(lost), twice=_words(twice), times=max(times), n=len(got))
    turn = len(got) // repeats
    first = [run["repeat"] for run in got[:turn]]
    if repeats > 1 and len(set(first)) > 1:
        raise Wrong("one_after_another", got=[run["repeat"] for run in got])


def _unknown(run: dict[str, Any], axes: Axes, repeats: int, index: int) -> None:
    repeat = run["repeat"]
    if repeat not in range(repeats):
        raise Wrong("repeat", got=repeat, last=repeats - 1, index=index)
    name = next(name for name in axes if run[name] not in axes[name])
    raise Wrong("no_such_value", name=name, got=run[name], values=axes[name], index=index)


def _beyond(function: Callable[..., Any], count: int, axes: Axes, repeats: int) -> None:
    """An array may be larger than the study: its last tasks have nothing to do."""
    try:
        run = _ask(function, count, axes, repeats)
    except Wrong as wrong:
        if wrong.mistake in ("raised", "first"):
            raise Wrong("raises_beyond", index=count) from None
        raise
    if run is not None:
        if not isinstance(run, dict) or not run:
            raise Wrong("not_none", index=count, got=repr(run))
        raise Wrong("beyond", index=count, count=count, got=_words(run))


def _words(run: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in run.items())
