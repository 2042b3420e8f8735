"""A training split into jobs, worked out by hand."""

import math

import pytest

from .what_if import in_pieces, pieces


def test_one_job_that_is_long_enough_loses_its_start_alone() -> None:
    assert in_pieces(10, 12, 1, 2, 3, told=True) == (10 + 1 + 3, 1, 1)
    assert in_pieces(10, 12, 1, 2, 3, told=False) == (10 + 1 + 3, 1, 1)


def test_one_job_that_is_long_enough_needs_no_checkpoint() -> None:
    assert in_pieces(1, 2, 0, 4, 0, told=False) == (1, 1, 0)


def test_every_job_pays_its_start_and_its_wait() -> None:
    # 4 hours each, 1 of them start-up: 3 + 3 + 3 + 1 of the 10
    assert in_pieces(10, 4, 1, 0, 2, told=True) == (10 + 4 * 1 + 4 * 2, 4, 4)


def test_a_job_that_is_cut_off_loses_half_of_what_lies_between_two_checkpoints() -> None:
    # 4 hours, 1 start-up, 1 lost of 2 between checkpoints: 2 + 2 + 2 + 2, and 2 in the last
    assert in_pieces(10, 4, 1, 2, 0, told=False) == (10 + 5 * 1 + 4 * 1, 5, 9)


@pytest.mark.parametrize(("limit", "told"), [(1, True), (2, False)])
def test_a_job_that_gets_nowhere_never_ends(limit: float, told: bool) -> None:
    assert in_pieces(10, limit, 1, 2, 0, told) == (math.inf, 0, math.inf)
    # with the sliders' smallest limit: a sentence, and no point that cannot be drawn
    shown = pieces(10, 1, 60, 120, 0)
    assert shown["says"] == "A job of that length ends before it trains."


def test_the_curves_are_those_of_the_function() -> None:
    shown = pieces(20, 4, 30, 60, 1)
    assert (
        dict(map(tuple, shown["curves"]["warned in time"]))[4]
        == in_pieces(20, 4, 0.5, 1, 1, True)[0] / 24
    )
    assert (
        dict(map(tuple, shown["curves"]["cut off"]))[4]
        == in_pieces(20, 4, 0.5, 1, 1, False)[0] / 24
    )
    assert shown["says"].startswith("Warned in time: 6 jobs")


def test_a_job_shorter_than_the_way_to_its_first_checkpoint_saves_nothing() -> None:
    assert in_pieces(40, 3, 0.5, 4, 0, told=False) == (math.inf, 0, math.inf)
    assert "so training never ends" in pieces(40, 3, 30, 240, 0)["says"]
    # what fits into one job needs no checkpoint
    assert in_pieces(2, 3, 0.5, 4, 0, told=False) == (2.5, 1, 0.5)
