"""Progress as people see it: whose loss it is, how fast it goes, how long it still takes."""

from __future__ import annotations

import math

import pytest

from dtlib.ranks import show
from dtlib.training.recorder import loss_of


@pytest.mark.parametrize(
    ("loss", "of", "step", "shown"),
    [
        (2.31, 30, 30, "30 of 40, loss 2.31"),
        (2.31, 30, 35, "35 of 40, loss of step 30: 2.31"),
        (math.nan, 0, 1, "1 of 40"),
    ],
)
def test_a_loss_belongs_to_the_step_shown_or_says_to_which(loss, of, step, shown):
    assert show.progress_words(step, 40, loss_of(loss, of, step)) == shown


def test_a_terminal_shows_a_bar_with_speed_and_time_left(capsys, monkeypatch):
    clock = iter([100.0, 102.0])
    monkeypatch.setattr(show.time, "monotonic", lambda: next(clock))
    terminal = show.Terminal(ranks=2)
    terminal.progress(1, 301, {})
    terminal.progress(5, 301, {"loss": 2.5})
    assert capsys.readouterr().err.endswith("2 ranks: 5 of 301, loss 2.5, 2/s, 2:28 left")
