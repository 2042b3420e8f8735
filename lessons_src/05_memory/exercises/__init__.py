"""The checks of lesson 05, one file for each exercise."""

from . import by_hand, chunked, fitting, recompute

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (by_hand, recompute, chunked, fitting)}
