"""Checks of lesson 12: read a bubble, write 1F1B, beat it."""

from . import bubble, mine, one_f_one_b

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (bubble, one_f_one_b, mine)}
