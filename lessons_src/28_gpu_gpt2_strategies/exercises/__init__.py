"""Checks of lesson 28: what fits on a card, fair rows of a table, broken logs, tokens a second."""

from . import diagnose, fair, room, tokens

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (room, fair, diagnose, tokens)}
