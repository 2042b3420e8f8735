"""The checks of lesson 28: what fits on a card, fair pairs of rows, broken logs, tokens/s."""

from . import diagnose, fair, room, tokens

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (room, fair, diagnose, tokens)}
