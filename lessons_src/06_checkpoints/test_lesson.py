"""Lesson 06 says what is true: its predictions, its run, its disk, its sliders."""

import math

import pytest

from dtlib.learn import source
from tests.prediction_cases import right_options

from .disk import NEW, OLD, Disk
from .exercises.state import state_of, without
from .trainer import PARTS, Run, load
from .what_if import best, how_often, lost

LESSON = source.find("06")


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("torn", "nothing that loads", "nothing that loads"),
        ("protocols", 1.0, "not at all, since model, text and tokens are the same"),
        ("protocols", 1.005, "by less than 1 %"),
        ("protocols", 1.5, "by 1 % or more"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right) -> None:
    assert right_options("06", key, value) == [right]


def test_every_part_of_the_small_run_is_needed_and_together_they_are_enough() -> None:
    run = Run(40)
    run.train(17)
    saved = state_of(run)
    right = run.train(40)
    assert load(Run(40, seed=3), saved).train(40) == right
    run = Run(40)
    run.train(17)
    for part in PARTS:
        assert load(Run(40, seed=3), without(part)(run)).train(40) != right, part


def test_a_crash_leaves_what_a_disk_may_leave() -> None:
    disk = Disk({"latest.pt": OLD})
    disk.write("new", NEW)
    assert disk.moments[-1] == {OLD}
    disk.rename("new", "latest.pt")
    assert disk.moments[-1] == {OLD, NEW, NEW[: len(NEW) // 2]}
    disk.fsync("latest.pt")
    assert disk.moments[-1] == {OLD, NEW}
    disk.fsync_folder()
    assert disk.moments[-1] == {NEW}
    with pytest.raises(OSError, match="cross-device"):
        disk.rename("latest.pt", "elsewhere/latest.pt")


def test_young_s_interval_loses_the_least() -> None:
    save, failure = 30.0, 3600.0 * 39
    optimum = best(save, failure)
    assert optimum == pytest.approx(math.sqrt(2 * save * failure))
    least = sum(lost(optimum, save, failure, 600))
    assert all(sum(lost(optimum * k, save, failure, 600)) > least for k in (0.8, 0.95, 1.05, 1.3))
    told = how_often(60, 30, 10_000, 256, 10)
    assert told["point"][1] == pytest.approx(
        100 * sum(lost(3600, 30, 3600 * 10_000 / 256, 600)), 1e-3
    )
    assert "256 nodes fail every 39.1 hours" in told["says"]
