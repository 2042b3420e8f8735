"""An effect is one only where it exceeds what the same measurement shows of no change."""

import math

import pytest

from dtlib.measure.noise import compare

QUIET, BUSY = [1.00, 1.02, 0.99, 1.01], [1.00, 1.35, 0.90, 1.10]


@pytest.mark.parametrize(
    ("times", "turns", "real"),
    [
        (1.25, QUIET, True),
        (1 / 1.25, QUIET, True),  # a loss is an effect, too
        (1.02, QUIET, False),
        (1.25, BUSY, False),
        (1 / 1.25, BUSY, False),
        (1.6, BUSY, True),
    ],
)
def test_an_effect_has_to_exceed_the_spread_of_the_placebo(times, turns, real):
    assert compare(times, turns).real is real
    # The same turns as pairs: the spread is that of their ratios.
    assert compare(times, [2 * t for t in turns], [2.0] * len(turns)).real is real


def test_a_placebo_is_judged_pair_by_pair_and_against_no_change():
    drift = [1.0, 2.0, 3.0]  # the machine slows down, and both columns see it
    assert compare(1.2, drift, [1.1 * t for t in drift]).spread == pytest.approx(1.1)
    assert compare(1.2, drift).spread == 3


def test_one_turn_proves_nothing():
    effect = compare(100, [1.0])
    assert not effect.real and effect.spread == math.inf
    assert str(effect) == "placebo spread unknown (one value), effect 100.00 times"


def test_the_sentence_has_both_numbers():
    assert str(compare(1.25, BUSY)) == "placebo spread 1.50 times, effect 1.25 times"
