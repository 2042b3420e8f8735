"""Checks of lesson 06: the state of a run, another world size, an atomic save, a perplexity."""

from . import atomic, left, spans, state

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (state, left, atomic, spans)}
