"""The α–β costs against the numbers of the lesson, and by physics."""

import ast
import math
import random
from pathlib import Path

import pytest

from dtlib.sim import collectives as sim

LINK = (10e-6, 1e-10)  # 10 µs, 10 GB/s


def test_numbers_of_the_lesson():
    # 126 (10 µs + 6.25 ns), 12 (10 µs + 0.4 µs); 126 (10 µs + 0.625 ms), 12 (10 µs + 40 ms)
    assert sim.ring_all_reduce_time(4e3, 64, *LINK) == pytest.approx(1.2607875e-3)
    assert sim.tree_all_reduce_time(4e3, 64, *LINK) == pytest.approx(0.1248e-3)
    assert sim.ring_all_reduce_time(4e8, 64, *LINK) == pytest.approx(80.01e-3, rel=1e-4)
    assert sim.tree_all_reduce_time(4e8, 64, *LINK) == pytest.approx(480.12e-3, rel=1e-4)
    # 114 · 10 µs / ((12 - 126/64) · 0.1 ns)
    assert sim.crossover(64, *LINK) == pytest.approx(1.13645e6, rel=1e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 64, 1000])
def test_at_the_crossover_both_take_as_long(n):
    size = sim.crossover(n, *LINK)
    if size == 0:
        assert n in (2, 3)
        size = 1.0
        assert sim.ring_all_reduce_time(size, n, *LINK) < sim.tree_all_reduce_time(size, n, *LINK)
        return
    ring, tree = (f(size, n, *LINK) for f in (sim.ring_all_reduce_time, sim.tree_all_reduce_time))
    assert ring == pytest.approx(tree)
    assert sim.ring_all_reduce_time(2 * size, n, *LINK) < sim.tree_all_reduce_time(
        2 * size, n, *LINK
    )


def test_alone_nothing_is_sent():
    assert sim.ring_all_reduce_time(1e6, 1, *LINK) == 0
    assert sim.tree_all_reduce_time(1e6, 1, *LINK) == 0
    assert sim.ring_wire_elements(7, 1) == 0


@pytest.mark.parametrize(("n", "expected"), [(1, 0), (2, 1), (3, 2), (8, 3), (9, 4), (64, 6)])
def test_rounds(n, expected):
    assert sim.rounds(n) == expected


@pytest.mark.parametrize("elements", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_wire_elements_add_up(elements, n):
    by_rank = [sim.ring_wire_elements(elements, n, rank) for rank in range(n)]
    assert sum(by_rank) == 2 * (n - 1) * elements
    assert max(by_rank) <= 2 * (n - 1) * math.ceil(elements / n)
    if elements % n == 0:
        assert set(by_rank) == {2 * (n - 1) * elements // n}


def test_fit_finds_the_line_that_made_the_points():
    sizes = [4**k for k in range(1, 12)]
    alpha, beta = sim.fit_line(sizes, [5e-5 + 2e-9 * s for s in sizes])
    assert alpha == pytest.approx(5e-5)
    assert beta == pytest.approx(2e-9)


def test_fit_weighs_points_by_their_size():
    sizes = [4**k for k in range(1, 12)]
    seconds = [5e-5 + 2e-9 * s for s in sizes]
    seconds[-1] *= 1.2  # 2 ms too long: unweighted, α would move by more than itself
    alpha, _ = sim.fit_line(sizes, seconds)
    assert alpha == pytest.approx(5e-5, rel=0.1)


def test_wire_elements_of_uneven_chunks():
    # 5 = 2 + 2 + 1; rank 0 sends 10 less chunks 1 and 2, rank 1 less 2 and 0, rank 2 less 0 and 1
    assert [sim.ring_wire_elements(5, 3, rank) for rank in range(3)] == [7, 7, 6]


def test_fit_is_never_negative():
    rng = random.Random(0)
    for _ in range(50):
        points = sorted(rng.uniform(1e-6, 1e-3) for _ in range(4))
        assert all(v >= 0 for v in sim.fit_line([1, 10, 100, 1000], points[::-1]))


def test_imports_nothing_but_math():
    tree = ast.parse(Path(sim.__file__).read_text(encoding="utf-8"))
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert names == ["math"]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
