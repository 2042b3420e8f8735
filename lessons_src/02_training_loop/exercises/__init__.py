"""The checks of lesson 02: a training step, accumulation, seeds, an exact score, a rate."""

from . import accumulate, evaluate, pick_rate, start_run, train_step

EXERCISES = {
    m.EXERCISE.name: m.EXERCISE for m in (train_step, start_run, accumulate, evaluate, pick_rate)
}
