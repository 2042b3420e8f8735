"""Overlap by hand: two buckets, one big one, a link that is too slow, and the what-if's numbers."""

import pytest

from . import what_if as overlap


def test_buckets_cover_all_bytes():
    assert overlap.bucket_sizes(10, 4) == [4, 4, 2]
    assert overlap.bucket_sizes(8, 4) == [4, 4]
    assert overlap.bucket_sizes(3, 10) == [3]


def test_a_timeline_by_hand():
    """N = 2, α = 0, β = 1 s: a bucket of 4 bytes takes 2·4/2 = 4 s, and one of 2 takes 2 s."""
    rows = overlap.timeline(10, 4, 2, 0.0, 1.0, 20.0)
    assert rows == [(8, 8, 12), (16, 16, 20), (20, 20, 22)]
    assert overlap.exposed(10, 4, 2, 0.0, 1.0, 20.0) == 2
    slow = overlap.timeline(10, 4, 2, 0.0, 1.0, 5.0)
    assert slow == [(2, 2, 6), (4, 6, 10), (5, 10, 12)]  # each waits for the one before it
    assert overlap.waiting(10, 4, 2, 0.0, 1.0) == 10


def test_one_bucket_hides_nothing():
    late = overlap.exposed(100, 1000, 4, 0.1, 0.01, 50.0)
    assert late == pytest.approx(overlap.waiting(100, 1000, 4, 0.1, 0.01))


def test_the_what_if_agrees_with_the_functions_and_has_a_best_size_between_the_ends():
    shown = overlap.exposed_curve(7, 100, 50, 10, 40)
    late = overlap.exposed(100e6, 1e7, 8, 50e-6, 1e-10, 0.04) * 1e3
    assert shown["point"] == pytest.approx([10, late])
    values = [y for _, y in shown["curves"]["overlapped"]]
    assert min(values) < min(values[0], values[-1])
    assert "Simulated" in shown["says"] and "10 buckets" in shown["says"]
