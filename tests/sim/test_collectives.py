"""What a ring sends and takes, by hand and by physics."""

import ast
import math
from pathlib import Path

import pytest

from dtlib.sim import collectives as sim
from tests.scratch_cases import ring_wire_elements

LINK = (10e-6, 1e-10)  # 10 µs, 10 GB/s


def test_alone_nothing_is_sent():
    assert sim.ring_all_reduce_time(1e6, 1, *LINK) == 0
    assert ring_wire_elements(7, 1) == 0


@pytest.mark.parametrize("elements", [0, 1, 5, 12, 13])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_wire_elements_add_up(elements, n):
    by_rank = [ring_wire_elements(elements, n, rank) for rank in range(n)]
    assert sum(by_rank) == 2 * (n - 1) * elements
    assert max(by_rank) <= 2 * (n - 1) * math.ceil(elements / n)
    if elements % n == 0:
        assert set(by_rank) == {2 * (n - 1) * elements // n}


def test_wire_elements_of_uneven_chunks():
    # 5 = 2 + 2 + 1; rank 0 sends 10 less chunks 1 and 2, rank 1 less 2 and 0, rank 2 less 0 and 1
    assert [ring_wire_elements(5, 3, rank) for rank in range(3)] == [7, 7, 6]


def test_imports_nothing():
    tree = ast.parse(Path(sim.__file__).read_text(encoding="utf-8"))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
