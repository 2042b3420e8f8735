"""No step waits for the device: what would is counted, on a CPU as it would be on a GPU."""

import contextlib
import io
from collections import Counter

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.data.batches import DeviceText, augmentation, DeviceImages
from dtlib.data import pictures
from dtlib.measure.waits import HostWaits
from dtlib.ranks import launcher
from dtlib.training import recorder
from tests.strategy_runs import HERE, TABLE, plain, settings_of

pytestmark = pytest.mark.usefixtures("own_folder")

STEPS = 22
TASKS = {
    "text": {"model": "nano", "max_length": 8, "num_samples": 200},
    "images": {"width": 4, "num_samples": 200},
}
# torch's own strategies: of what DeepSpeed reads in each of its steps, nothing is the loop's
OURS = [name for name in plain(HERE) if TABLE[name].framework != "deepspeed"]


def waits_by_step(task: str, within: float = 1e9, **settings) -> list[dict[str, int]]:
    """Train here, and return for each step what made the host wait for the device in it."""
    seen = [Counter()]
    with (
        HostWaits() as waits,
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        patch.setattr(recorder, "READ_WITHIN", within)
        patch.setattr(launcher, "progress", lambda *_, **__: seen.append(Counter(waits.counts)))
        plain = {"steps": STEPS, "global_batch": 4, "clip": 1.0, "checkpoint_every": 0}
        dtlib.train(task, **plain | TASKS[task] | settings)
    return [dict(now - before) for before, now in zip(seen, seen[1:], strict=False)]


def each(names: list[str]) -> dict[tuple[str, str], list[dict[str, int]]]:
    return {
        (task, name): waits_by_step(task, **settings_of(name)) for task in TASKS for name in names
    }
