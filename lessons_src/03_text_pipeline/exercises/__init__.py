"""The checks of lesson 03: packing, who attends to whom, and which rows a rank reads."""

from . import attend, packed, shards

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (packed, attend, shards)}
