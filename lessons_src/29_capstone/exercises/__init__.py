"""The checks of lesson 29: an efficiency with its spread, a reviewer's check, node-hours."""

from . import claims, hours, spreads

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (spreads, claims, hours)}
