"""The checks of lesson 27: the MFU of a step, the cheapest GPUs in time, time to accuracy."""

from . import accuracy, launches, price

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (launches, price, accuracy)}
