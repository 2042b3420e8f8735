"""The checks of lesson 22: paired gains, a cheaper step, bounds, prices, what stays the same."""

from dtlib.learn.checking import Exercise

from . import bounds, pairs, paying, same, step

EXERCISES = {
    "gain": Exercise(pairs.check, pairs.reference, minutes=10),
    "faster_step": Exercise(step.check, step.reference, minutes=15),
    "bound": Exercise(bounds.check, bounds.reference, minutes=8),
    "break_even": Exercise(paying.check, paying.reference, minutes=6),
    "same_experiment": Exercise(same.check, same.reference, minutes=10),
}
