"""The learning rate of each step."""

import pytest

from dtlib.strategies.optim import learning_rate
from tests.toy import config


def test_the_learning_rate_rises_then_falls_to_its_floor():
    settings = config(lr=1.0, schedule="cosine", warmup_steps=3, lr_floor=0.1)
    rates = [learning_rate(settings, step, 14) for step in range(14)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[8] == pytest.approx(0.55)  # halfway: (1 + 0.1) / 2
    constant = config(lr=1.0, warmup_steps=1)
    assert [learning_rate(constant, step, 4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]
