"""The checks of lesson 22: paired gains, a cheaper step, bounds, prices, what stays the same."""

from dtlib.learn.checking import Exercise

from . import bounds, pairs, paying, same, step

EXERCISES = {
    "gain": pairs.EXERCISE,
    "faster_step": Exercise(step.check, step.reference, minutes=15),
    "bound": bounds.EXERCISE,
    "break_even": paying.EXERCISE,
    "same_experiment": same.EXERCISE,
}
