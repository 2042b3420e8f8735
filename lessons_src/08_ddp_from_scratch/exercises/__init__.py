"""Checks of lesson 08: a loop on many ranks, one message, buckets, overlap."""

from . import buckets, flat, overlap, together

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (together, flat, buckets, overlap)}
