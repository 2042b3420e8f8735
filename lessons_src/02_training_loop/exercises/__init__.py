"""The checks of lesson 02: a training step, accumulation, seeds, an exact score, a rate."""

from __future__ import annotations

from dtlib.learn.checking import Exercise

from . import accumulate, evaluate, pick_rate, start_run, train_step

EXERCISES = {
    "train_step": Exercise(train_step.check, train_step.reference, minutes=8),
    "start_run": Exercise(start_run.check, start_run.reference, minutes=10),
    "accumulate": Exercise(accumulate.check, accumulate.reference, minutes=12),
    "evaluate": evaluate.EXERCISE,
    "pick_rate": pick_rate.EXERCISE,
}
