"""Node-hours, and an efficiency beyond the ranks on which it was measured."""

import pytest

from dtlib.sim.node_hours import extrapolated, gpu_hours, node_hours


def test_hours_of_a_run() -> None:
    assert gpu_hours(3600e15, 1e15, 0.5) == 2
    assert node_hours(3600e15, 1e15, 0.5, 0.8, 4, runs=3, reserve=0.5) == pytest.approx(
        2 / 0.8 / 4 * 3 * 1.5
    )


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_a_measured_efficiency_is_found_again(kind: str) -> None:
    for efficiency in (0.3, 0.8, 1.0):
        assert extrapolated(kind, efficiency, 4, 4) == pytest.approx(efficiency)
        assert extrapolated(kind, efficiency, 4, 1) == 1


def test_limits_of_both_kinds() -> None:
    # weak, 0.8 on 2: a quarter of a step is lost there, half of it on very many ranks
    assert extrapolated("weak", 0.8, 2, 10**9) == pytest.approx(1 / 1.5)
    # strong: every further rank adds what the second one added, relative to its own part
    assert extrapolated("strong", 0.8, 2, 9) == pytest.approx(1 / (1 + 8 * 0.25))
    assert extrapolated("weak", 1.2, 2, 64) == 1  # above 1 is noise, or a cache
