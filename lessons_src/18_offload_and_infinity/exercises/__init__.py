"""Checks of lesson 18: bytes moved, a streamed step, enough tokens, a schedule."""

from . import moved, schedule, streamed, tokens

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (moved, streamed, tokens, schedule)}
