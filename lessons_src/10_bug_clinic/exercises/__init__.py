"""Checks of lesson 10: what the loud and the silent patients have, and their cures, on ranks."""

from . import cures, loud, silent

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (loud, silent, cures)}
