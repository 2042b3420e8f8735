"""Lesson 18 says what is true: the numbers that its prose names."""

from __future__ import annotations

from .exercises.shares import largest_share


def test_nine_ranks_are_no_faster_than_five():
    assert {largest_share(10, ranks) for ranks in range(5, 10)} == {2}
