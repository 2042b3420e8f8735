"""`dtlib study sensitivity`: every combination of a few settings, each run several times.

The full grid, so that settings which only help together are found, too. Turns are interleaved:
each repeat goes once over the whole grid, and a setting's gain is that of its throughput over the
first setting's *of the same turn*. What is within noise, `measure.noise` decides, as everywhere.
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
"""What may vary, and what stands for it in the name of a run."""

BEST = (
    "study", *AXES, "world_size", "repeats", "step_time_s", "throughput", "throughput_unit",
    "gain", "gain_min", "gain_max", "verdict", "comm_share", "data_share", "device",
)  # fmt: skip
"""A row a setting, most gain first; `gain` is a share of the first setting's throughput."""

FIRST, GAIN, LOSS, NOISE, SINGLE = "first", "gain", "loss", "noise", "one repeat"


def plans(
    settings: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], repeats: int
) -> Iterator[Planned]:
    """Yield the runs of a study, a whole turn over the grid for each repeat.

    Every other turn goes backwards: what always came first would always meet the coldest machine.

    `settings` are those of `RunConfig` that all runs share, `axes` the values of each setting that
    varies; the first of each make the first setting. Raises `BadInput` for fewer than one repeat, a
    grid of one, a value twice, an axis that does not exist, or settings that no run can have.
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
        # all settings take the path that has workers, so that only they differ
        shared = {"loader": "dataloader", **shared}
    configs = [RunConfig.from_mapping({**shared, **dict(zip(axes, one))}) for one in grid]  # noqa: B905
    names = [setting_name(vars(config), axes) for config in configs]
    for at, config in enumerate(configs):
        config.plan(config.ranks or 1)  # refuses a batch that they cannot share
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
    """Return by what share each repeat has more throughput than the first setting's same repeat."""
    against = {row["repeat"]: row["throughput"] for row in first}
    return [
        row["throughput"] / against[row["repeat"]] - 1 for row in runs if row["repeat"] in against
    ]


def verdict(values: Sequence[float]) -> str:
    """Say what paired gains show: a gain or a loss beyond their own spread, or noise.

    Each pair has the same change, so the pairs differ by what else the machine did.
    """
    if len(values) < 2:
        return SINGLE
    ratios = [1 + value for value in values]
    effect = compare(statistics.median(ratios), ratios)
    return NOISE if not effect.real else GAIN if effect.times > 1 else LOSS


def best(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row of `BEST` for each setting, the one of most gain first.

    The rows are of one study, as `tables.of_runs` gives them: the first setting's runs come first.
    Raises `BadInput` when they are of another study, or a run has no timed step.
    """
    if {row["study"] for row in rows} != {KIND}:
        raise BadInput("these are not runs of a sensitivity study; name a sensitivity.csv.")
    refuse_untimed(rows)
    found = by_setting(rows)
    first = next(iter(found))
    table = [
        _of_setting(runs, gains(found[first], runs), name == first) for name, runs in found.items()
    ]
    # by the paired gain: a median of throughputs would also rank what else the machine did
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
