"""Checks of lesson 08: a loop on many ranks, one message, buckets, overlap."""

from . import buckets, flat, overlap, together

EXERCISES = {
    "train_together": together.EXERCISE,
    "flat_all_reduce": flat.EXERCISE,
    "assign_buckets": buckets.EXERCISE,
    "overlap": overlap.EXERCISE,
}
