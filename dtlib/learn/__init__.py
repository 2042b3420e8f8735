"""What a lesson calls: checks with a hint ladder, predictions, a quiz, what-if widgets.

Nothing here blocks when nobody answers, so Run All and papermill reach the end.
"""

from __future__ import annotations

from dtlib.learn.classroom import join, leave
from dtlib.learn.ladder import CheckFailed, check, given, hint, solution
from dtlib.learn.overview import progress
from dtlib.learn.predictions import measured, my_run, predict, take_away
from dtlib.learn.quiz import quiz
from dtlib.learn.recorded import keep_record, recorded
from dtlib.learn.session import ready, start
from dtlib.learn.shell import CommandFailed, shell
from dtlib.learn.show import table
from dtlib.learn.what_if import what_if

__all__ = [
    "CheckFailed", "CommandFailed", "check", "given", "hint", "join", "keep_record", "leave",
    "measured", "my_run", "predict", "progress", "quiz", "ready", "recorded", "shell", "solution",
    "start", "table", "take_away", "what_if",
]  # fmt: skip
