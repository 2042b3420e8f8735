"""Trees and lines by hand: the numbers of the lesson, the crossover, and what the sliders say."""

import random

import pytest

from dtlib.sim.collectives import ring_all_reduce_time

from . import what_if as own

LINK = (10e-6, 1e-10)  # 10 µs, 10 GB/s


def test_numbers_of_the_lesson():
    # 126 (10 µs + 6.25 ns), 12 (10 µs + 0.4 µs); 126 (10 µs + 0.625 ms), 12 (10 µs + 40 ms)
    assert ring_all_reduce_time(4e3, 64, *LINK) == pytest.approx(1.2607875e-3)
    assert own.tree_all_reduce_time(4e3, 64, *LINK) == pytest.approx(0.1248e-3)
    assert ring_all_reduce_time(4e8, 64, *LINK) == pytest.approx(80.01e-3, rel=1e-4)
    assert own.tree_all_reduce_time(4e8, 64, *LINK) == pytest.approx(480.12e-3, rel=1e-4)
    # 114 · 10 µs / ((12 - 126/64) · 0.1 ns)
    assert own.crossover(64, *LINK) == pytest.approx(1.13645e6, rel=1e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 64, 1000])
def test_at_the_crossover_both_take_as_long(n):
    size = own.crossover(n, *LINK)
    if size == 0:
        assert n in (2, 3)
        size = 1.0
        assert ring_all_reduce_time(size, n, *LINK) < own.tree_all_reduce_time(size, n, *LINK)
        return
    ring, tree = (f(size, n, *LINK) for f in (ring_all_reduce_time, own.tree_all_reduce_time))
    assert ring == pytest.approx(tree)
    assert ring_all_reduce_time(2 * size, n, *LINK) < own.tree_all_reduce_time(2 * size, n, *LINK)


@pytest.mark.parametrize(("n", "expected"), [(1, 0), (2, 1), (3, 2), (8, 3), (9, 4), (64, 6)])
def test_rounds(n, expected):
    assert own.rounds(n) == expected


def test_fit_finds_the_line_that_made_the_points():
    sizes = [4**k for k in range(1, 12)]
    alpha, beta = own.fit_line(sizes, [5e-5 + 2e-9 * s for s in sizes])
    assert alpha == pytest.approx(5e-5)
    assert beta == pytest.approx(2e-9)


def test_fit_weighs_points_by_their_size():
    sizes = [4**k for k in range(1, 12)]
    seconds = [5e-5 + 2e-9 * s for s in sizes]
    seconds[-1] *= 1.2  # 2 ms too long: unweighted, α would move by more than itself
    alpha, _ = own.fit_line(sizes, seconds)
    assert alpha == pytest.approx(5e-5, rel=0.1)


def test_fit_is_never_negative():
    rng = random.Random(0)
    for _ in range(50):
        points = sorted(rng.uniform(1e-6, 1e-3) for _ in range(4))
        assert all(v >= 0 for v in own.fit_line([1, 10, 100, 1000], points[::-1]))


def test_the_what_if_says_who_wins():
    small = own.ring_or_tree(64, 3.6, 10, 10)
    large = own.ring_or_tree(64, 8.6, 10, 10)
    assert "the tree wins at N = 64 and 3.98 kB" in small["says"]
    assert "the ring wins at N = 64 and 398 MB" in large["says"]
    assert small["says"].startswith("Simulated")
    assert large["point"][1] == pytest.approx(min(c[5][1] for c in large["curves"].values()))
    assert "From 1.14 MB on" in small["says"]
