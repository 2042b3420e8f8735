"""The checks of lesson 20: the clock, overlapping time, waiting ranks, and an export of Nsight."""

from . import busy, clock, exposed, nsight, waiting

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (clock, busy, exposed, waiting, nsight)}
