"""The checks of lesson 25: ranks on all nodes, the time limit, an array's runs, how a job ended."""

from dtlib.learn.checking import Exercise

from . import array, limit, next_step, ranks

EXERCISES = {
    "start_ranks": Exercise(ranks.check, ranks.reference, minutes=16),
    "survive": Exercise(limit.check, limit.reference, minutes=18),
    "array_run": Exercise(array.check, array.reference, minutes=10),
    "next_step": Exercise(next_step.check, next_step.reference, minutes=8),
}
