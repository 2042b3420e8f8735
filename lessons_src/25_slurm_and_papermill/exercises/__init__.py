"""The checks of lesson 25: ranks on all nodes, the time limit, an array's runs, how a job ended."""

from . import array, limit, next_step, ranks

EXERCISES = {
    "start_ranks": ranks.EXERCISE,
    "survive": limit.EXERCISE,
    "array_run": array.EXERCISE,
    "next_step": next_step.EXERCISE,
}
