"""More answers to `mfu`, for the tests alone."""

from ..exercises.share import mfu


def for_one_rank(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / step_seconds / teraflops / 1e12


def by_ideal_time(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    forward = 2 * parameters * tokens_per_rank * ranks
    return (forward + 2 * forward) / (ranks * teraflops * 1e12) / step_seconds


ALSO_WRONG = [
    ("factor", lambda *step: 7 / 6 * mfu(*step)),
    ("none", lambda *step: print(mfu(*step))),
]
ALSO_RIGHT = [for_one_rank, by_ideal_time]
