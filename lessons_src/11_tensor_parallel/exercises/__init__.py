"""The checks of lesson 11: an MLP, attention, and a loss, each cut over the ranks."""

from . import attention, loss, mlp

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (mlp, attention, loss)}
