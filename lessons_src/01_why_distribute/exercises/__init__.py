"""The checks of lesson 01: days, bytes, the share of the peak, and how many GPUs hold a model."""

from . import days, share, states, world

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (days, states, share, world)}
