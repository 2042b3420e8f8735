"""Checks of lesson 07: a mean over all ranks, one exchange, the two halves of a ring, its cost."""

from . import all_reduce, global_mean, pass_right, reduce_scatter, ring_cost, tree_cost

EXERCISES = {
    m.EXERCISE.name: m.EXERCISE
    for m in (global_mean, pass_right, reduce_scatter, all_reduce, ring_cost, tree_cost)
}
