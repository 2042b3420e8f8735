"""Checks of lesson 16: ZeRO's three stages by hand, and the paper's table."""

from . import accumulate, held, norm, schedule, sent, stage1

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (stage1, accumulate, norm, schedule, held, sent)}
