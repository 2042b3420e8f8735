"""The checks of lesson 14: the schedule, the batches, the tail and the score under Accelerate."""

from . import accuracy, batches, schedule, tail

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (schedule, batches, tail, accuracy)}
