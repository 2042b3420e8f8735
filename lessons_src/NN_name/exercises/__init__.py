"""The checks of lesson NN."""

from . import shares, times

EXERCISES = {"largest_share": shares.EXERCISE, "efficiency": times.EXERCISE}
