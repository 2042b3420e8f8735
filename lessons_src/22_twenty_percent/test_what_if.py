"""Levers on different parts of a step, together."""

import math

import pytest

from .what_if import total_gain, two_levers


@pytest.mark.parametrize(
    ("shares", "speedups", "expected"),
    [
        ([], [], 1),
        ([0.5], [2], 1 / 0.75),
        ([0.2], [math.inf], 1.25),
        ([0.2, 0.2], [math.inf, math.inf], 1 / 0.6),
        ([0.25], [0.5], 0.8),  # a lever that loses
        ([1.0], [math.inf], math.inf),
        ([0.6, 0.3], [3, 3], 2.5),
    ],
)
def test_the_old_step_over_what_is_left(shares, speedups, expected):
    assert total_gain(shares, speedups) == pytest.approx(expected, rel=1e-12)


def test_both_together_give_more_than_their_product_and_less_than_a_bound():
    """On different parts (1-a)(1-b) >= 1-a-b, whatever is saved."""
    found = two_levers(40, 2, 30, 4)
    both = found["point"][1]
    assert both == pytest.approx(1 / (1 - 0.2 - 0.225))
    assert both > (1 / 0.8) * (1 / 0.775)
    assert "at most 1.67 times" in found["says"]
    for name, points in found["curves"].items():
        assert points[0][0] == 1, name
        assert [x for x, _ in points] == sorted(x for x, _ in points)


def test_shares_of_more_than_a_step_are_cut_and_it_is_said():
    found = two_levers(90, 20, 90, 20)
    assert found["point"][1] == pytest.approx(20)
    assert "Only 10 % of the step are left for B." in found["says"]


@pytest.mark.parametrize("share_a", range(5, 95, 5))
def test_shares_that_fit_are_not_said_to_be_cut(share_a):
    assert "left for B" not in two_levers(share_a, 2, 100 - share_a, 2)["says"]
