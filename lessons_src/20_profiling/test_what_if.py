"""The step of the what-if, in cases that can be done on paper."""

import pytest

from .what_if import step_time, what_bounds


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # compute, communication, hidden, load, workers → seconds, input wait, exposed
        ((10, 4, 0.0, 0, 1), (14, 0, 4)),
        ((10, 4, 1.0, 0, 1), (10, 0, 0)),
        ((10, 40, 1.0, 0, 1), (40, 0, 30)),  # no more than the computation hides it
        ((10, 4, 0.5, 30, 0), (42, 30, 2)),  # the step loads it itself
        ((10, 4, 0.5, 30, 1), (30, 18, 2)),
        ((10, 4, 0.5, 30, 2), (15, 3, 2)),
        ((10, 4, 0.5, 30, 3), (12, 0, 2)),
    ],
)
def test_step_time(given: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert step_time(*given) == pytest.approx(expected)  # type: ignore[arg-type]


def test_the_slider_says_what_bounds() -> None:
    assert what_bounds(25, 20, 50, 60, 0)["says"].endswith("it is input-bound.")
    assert what_bounds(25, 20, 50, 60, 4)["says"].endswith("it is communication-bound.")
    assert what_bounds(25, 80, 20, 60, 16)["says"].endswith("it is communication-bound.")
    assert what_bounds(25, 10, 50, 60, 4)["says"].endswith("it is compute-bound.")
    assert what_bounds(25, 20, 50, 60, 1)["says"].endswith("it is input-bound.")
