"""What an accuracy owes to luck: the formula against draws, and the what-if's words."""

import numpy as np
import pytest

from .what_if import luck, standard_error


def test_the_standard_error_is_that_of_drawn_accuracies():
    assert standard_error(0.5, 100) == 0.05
    drawn = np.random.default_rng(0).binomial(400, 0.8, 20_000) / 400
    # the deviation of 20,000 draws is itself off by 1 / sqrt(2 · 20,000), 0.5 %: four times that
    assert standard_error(0.8, 400) == pytest.approx(drawn.std(), rel=0.02)


@pytest.mark.parametrize(("pictures", "words"), [(500, "may be luck"), (5000, "is more than that")])
def test_three_points_are_luck_on_500_pictures_and_not_on_5000(pictures, words):
    found = luck(62, pictures, 3)
    assert words in found["says"]
    assert found["point"] in found["curves"]["luck"]
    assert list(found["curves"]) == ["luck", "seen"]
