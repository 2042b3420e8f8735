"""Strong scaling with an exchange, by hand."""

import pytest

from .what_if import bill, strong_step


def test_one_gpu_exchanges_nothing() -> None:
    assert strong_step(0.1, 1e9, 1e9, 1.0, 0.0, 1) == 0.1


def test_a_ring_sends_two_halves() -> None:
    # 4 GPUs: 6 messages of 0.25 GB at 1 GB/s and 10 ms each
    assert strong_step(0.4, 1e9, 1e9, 0.01, 0.0, 4) == pytest.approx(0.1 + 6 * (0.01 + 0.25))


def test_no_more_is_hidden_than_there_is_computation() -> None:
    exchange = 6 * 0.25
    assert strong_step(0.4, 1e9, 1e9, 0.0, 1.0, 4) == pytest.approx(0.1 + exchange - 0.1)
    assert strong_step(8.0, 1e9, 1e9, 0.0, 0.5, 4) == pytest.approx(2.0 + exchange / 2)


def test_the_bill_of_ideal_scaling_is_flat() -> None:
    shown = bill(36, 0, 1, 0, 0, 8)
    assert [cost for _, cost in shown["curves"]["GPU hours"]] == pytest.approx([1.0] * 7)
    assert shown["says"] == "On 8 GPUs: 0.12 h and 1.0 GPU hours, an efficiency of 100 %."
