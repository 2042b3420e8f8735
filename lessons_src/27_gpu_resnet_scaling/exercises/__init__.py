"""The checks of lesson 27: a share of the peak, the cheapest GPUs in time, time to accuracy."""

from . import accuracy, peak, price

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (peak, price, accuracy)}
