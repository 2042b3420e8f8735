"""The checks of lesson 02: a training step, accumulation, seeds, an exact score, a rate."""

from . import accumulate, evaluate, pick_rate, start_run, train_step

EXERCISES = {
    "train_step": train_step.EXERCISE,
    "start_run": start_run.EXERCISE,
    "accumulate": accumulate.EXERCISE,
    "evaluate": evaluate.EXERCISE,
    "pick_rate": pick_rate.EXERCISE,
}
