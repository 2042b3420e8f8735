"""Checks of lesson 17: bytes held, an ablation, the batch identity, weights made whole."""

from . import batch_fields, gains, held, whole_weights

EXERCISES = {
    "held": held.EXERCISE,
    "gains": gains.EXERCISE,
    "batch_fields": batch_fields.EXERCISE,
    "whole_weights": whole_weights.EXERCISE,
}
