"""`dtlib study sensitivity`: every combination of a few settings, each run several times.

It runs the full grid, to find settings that only help together. Turns are interleaved: each repeat
goes once over the whole grid, and a setting's gain compares its throughput with that of the first
setting *in the same turn*. As everywhere, `measure.noise` decides which gains are noise.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.measure.noise import compare
from dtlib.study.family import Planned
from dtlib.study.scaling import STEPS, of_repeats, refuse_no_repeat
from dtlib.study.tables import REPEAT, Row, refuse_untimed

KIND = "sensitivity"
AXES = {
    "bucket_cap_mb": "bucket", "global_batch": "batch", "accumulation": "accumulation",
    "precision": "", "workers": "workers",
}  # fmt: skip
"""The settings that can vary, with their prefixes in the name of a run."""

BEST = (
    "study", *AXES, "world_size", "repeats", "step_time_s", "throughput", "throughput_unit",
    "gain", "gain_min", "gain_max", "verdict", "comm_share", "data_share", "device",
)  # fmt: skip
"""One row per setting, largest gain first; `gain` is relative to the first setting's throughput."""

FIRST, GAIN, LOSS, NOISE, SINGLE = "first", "gain", "loss", "noise", "one repeat"


def plans(
    settings: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], repeats: int
) -> Iterator[Planned]:
    """Yield the runs of a study, one whole turn over the grid per repeat.

    Every other turn goes backwards: otherwise the first setting would always run on the coldest
    machine.

    `settings` are those of `RunConfig` that all runs share, `axes` the values of each setting that
    varies; the first values make up the first setting. Raises `BadInput` for fewer than one repeat,
    a grid of one, a repeated value, an unknown axis, or settings that no run can have.
    """
    refuse_no_repeat(repeats)
    for axis in axes:
        if axis not in AXES:
            raise BadInput(
                f"{axis} cannot vary in a sensitivity study, whose axes are"
                f" {', '.join(AXES)}; give it one value."
            )
    grid = list(itertools.product(*axes.values()))
    if len(grid) < 2:
        raise BadInput(
            "the grid has one combination, and nothing to compare it with; list two values of a"
            " setting, such as --precision fp32,bf16."
        )
    shared = {"steps": STEPS, "threads": 1, "strategy": "ddp", "profile": True, **settings}
    if "workers" in axes and shared["task"] == "images":
        # all settings use the loader with workers, so that only their number differs
        shared = {"loader": "dataloader", **shared}
    configs = [RunConfig.from_mapping({**shared, **dict(zip(axes, one))}) for one in grid]  # noqa: B905
    names = [setting_name(vars(config), axes) for config in configs]
    for at, config in enumerate(configs):
        config.plan(config.ranks or 1)  # refuses a batch that the ranks can't share
        if names[at] in names[:at]:
            raise BadInput(f"the grid contains {names[at]} twice; give each value once.")
    for repeat in range(repeats):
        turn = list(zip(names, configs, strict=True))
        for one, config in turn[::-1] if repeat % 2 else turn:
            yield Planned(f"{one}{REPEAT}{repeat}", config)


def setting_name(values: Mapping[str, Any], axes: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the name of a setting, such as `bucket1-batch32-bf16`."""
    shown = (f"{v:g}" if isinstance(v, float) else str(v) for v in (values[axis] for axis in axes))
    return "-".join(AXES[axis] + value for axis, value in zip(axes, shown, strict=True))


def varying(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the axes that have more than one value in these rows."""
    return [axis for axis in AXES if len({row[axis] for row in rows}) > 1]


def by_setting(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the runs of each setting by its name, the first setting first."""
    axes, found = varying(rows), {}  # type: ignore[var-annotated]
    for row in rows:
        found.setdefault(setting_name(row, axes), []).append(row)
    return found


def gains(first: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return each repeat's gain in throughput over the first setting's same repeat, as a share."""
    against = {row["repeat"]: row["throughput"] for row in first}
    return [
        row["throughput"] / against[row["repeat"]] - 1 for row in runs if row["repeat"] in against
    ]


def verdict(values: Sequence[float]) -> str:
    """Say what paired gains show: a gain or a loss beyond their own spread, or noise.

    All pairs make the same change, so they only differ by what else the machine did.
    """
    if len(values) < 2:
        return SINGLE
    ratios = [1 + value for value in values]
    effect = compare(statistics.median(ratios), ratios)
    return NOISE if not effect.real else GAIN if effect.times > 1 else LOSS


def best(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row of `BEST` for each setting, the largest gain first.

    `rows` belong to one study, as `tables.of_runs` returns them: the first setting comes first.
    Raises `BadInput` when they belong to another study, or a run has no timed step.
    """
    if {row["study"] for row in rows} != {KIND}:
        raise BadInput("these are not runs of a sensitivity study; name a sensitivity.csv.")
    refuse_untimed(rows)
    found = by_setting(rows)
    first = next(iter(found))
    table = [
        _of_setting(runs, gains(found[first], runs), name == first) for name, runs in found.items()
    ]
    # by the paired gain: a median of throughputs would also depend on the machine's other load
    return sorted(table, key=lambda row: -math.inf if row["gain"] is None else row["gain"])[::-1]


def _of_setting(runs: Sequence[Mapping[str, Any]], values: Sequence[float], first: bool) -> Row:
    found = {
        **of_repeats(runs),
        **{axis: runs[0][axis] for axis in AXES},
        "gain": statistics.median(values) if values else None,
        "gain_min": min(values, default=None),
        "gain_max": max(values, default=None),
        "verdict": FIRST if first else verdict(values),
    }
    return {column: found[column] for column in BEST}
