"""Checks of lesson 17: bytes held, an ablation, the batch identity, whole weights collected."""

from . import batch_fields, gains, held, whole_weights

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (held, gains, batch_fields, whole_weights)}
