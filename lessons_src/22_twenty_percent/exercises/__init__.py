"""The checks of lesson 22: paired gains, a cheaper step, bounds, prices, what stays the same."""

from . import bounds, pairs, paying, same, step

EXERCISES = {
    "gain": pairs.EXERCISE,
    "faster_step": step.EXERCISE,
    "bound": bounds.EXERCISE,
    "break_even": paying.EXERCISE,
    "same_experiment": same.EXERCISE,
}
