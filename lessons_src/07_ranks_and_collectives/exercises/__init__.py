"""Checks of lesson 07: a mean over all ranks, one exchange, the two halves of a ring, its cost."""

from . import all_reduce, global_mean, pass_right, reduce_scatter, ring_cost, tree_cost

EXERCISES = {
    "global_mean": global_mean.EXERCISE,
    "pass_right": pass_right.EXERCISE,
    "ring_reduce_scatter": reduce_scatter.EXERCISE,
    "ring_all_reduce": all_reduce.EXERCISE,
    "ring_time": ring_cost.EXERCISE,
    "tree_time": tree_cost.EXERCISE,
}
