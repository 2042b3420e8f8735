"""The checks of lesson 00: a share of a batch, and a sum over all ranks."""

from . import everyones_sum, my_share

EXERCISES = {"my_share": my_share.EXERCISE, "everyones_sum": everyones_sum.EXERCISE}
