"""The checks of lesson 22: paired gains, a cheaper step, bounds, prices, the same experiment."""

from . import bounds, pairs, paying, same, step

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (pairs, step, bounds, paying, same)}
