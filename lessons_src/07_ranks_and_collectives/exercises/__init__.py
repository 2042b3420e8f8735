"""Checks of lesson 07: a mean over all ranks, one exchange, the two halves of a ring, its cost."""

from dtlib.learn.checking import Exercise
from dtlib.scratch.ring import ring_all_reduce, ring_reduce_scatter

from . import global_mean, pass_right, ring, ring_cost, tree_cost

EXERCISES = {
    "global_mean": global_mean.EXERCISE,
    "pass_right": Exercise(pass_right.check, pass_right.reference, minutes=10),
    "ring_reduce_scatter": Exercise(ring.check_first_half, ring_reduce_scatter, minutes=12),
    "ring_all_reduce": Exercise(ring.check_whole, ring_all_reduce, minutes=8, after_pass=ring.race),
    "ring_time": ring_cost.EXERCISE,
    "tree_time": tree_cost.EXERCISE,
}
