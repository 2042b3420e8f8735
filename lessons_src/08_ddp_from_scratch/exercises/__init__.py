"""Checks of lesson 08: a loop on many ranks, one message, buckets, overlap."""

from dtlib.learn.checking import Exercise

from . import buckets, flat, overlap, together

EXERCISES = {
    "train_together": together.EXERCISE,
    "flat_all_reduce": flat.EXERCISE,
    "assign_buckets": buckets.EXERCISE,
    "overlap": Exercise(overlap.check, overlap.reference, minutes=25),
}
