"""The law behind lesson 21's slider: its limits, and Karp and Flatt's share as its inverse."""

import pytest

from .what_if import efficiencies, serial_share, strong_step, weak_step


def test_limits() -> None:
    assert [strong_step(n, 0, 0) for n in (1, 2, 4)] == [1, 0.5, 0.25]  # ideal
    assert 1 / strong_step(10**9, 0.1, 0) == pytest.approx(10)  # Amdahl: never beyond 1/s
    assert strong_step(1, 0.3, 0.5) == weak_step(1, 0.5) == 1  # one rank sends nothing
    assert weak_step(10**9, 0.25) == pytest.approx(1.25)


@pytest.mark.parametrize("ranks", [2, 3, 8, 1000])
@pytest.mark.parametrize("serial", [0, 0.05, 0.5, 1])
def test_the_share_is_found_again(ranks, serial) -> None:
    assert serial_share(1 / strong_step(ranks, serial, 0), ranks) == pytest.approx(serial)


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_a_rings_bytes_look_like_a_serial_share(ranks) -> None:
    """1/N + (s + c)(1 - 1/N): no speed-up tells s and c apart."""
    assert serial_share(1 / strong_step(ranks, 0.05, 0.10), ranks) == pytest.approx(0.15)


def test_the_slider() -> None:
    shown = efficiencies(3, 10, 0)
    assert shown["point"] == [8, pytest.approx(1 / (8 * (0.1 + 0.9 / 8)))]
    assert [n for n, _ in shown["curves"]["weak"]] == [2**k for k in range(11)]
    assert all(value == 1 for _, value in shown["curves"]["weak"])
    assert "4.71 times as fast as one rank, an efficiency of 0.59" in shown["says"]
