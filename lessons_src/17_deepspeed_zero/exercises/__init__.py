"""Checks of lesson 17: bytes held, an ablation, the batch identity, weights made whole."""

from dtlib.learn.checking import Exercise

from . import batch_fields, gains, held, whole_weights

EXERCISES = {
    "held": Exercise(held.check, held.reference, minutes=8),
    "gains": Exercise(gains.check, gains.reference, minutes=12),
    "batch_fields": Exercise(batch_fields.check, batch_fields.reference, minutes=10),
    "whole_weights": Exercise(whole_weights.check, whole_weights.reference, minutes=14),
}
