"""More answers to `mfu`, for the tests alone."""

from ..exercises.share import mfu


def for_one_rank(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    useful = 6 * parameters * tokens_per_rank / step_seconds / teraflops / 1e12
    return useful, useful * (1 + recompute / 3)


def by_ideal_time(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    forward = 2 * parameters * tokens_per_rank * ranks
    possible = ranks * teraflops * 1e12 * step_seconds
    return [3 * forward / possible, (3 + recompute) * forward / possible]


ALSO_WRONG = [
    ("factor", lambda *step: tuple(7 / 6 * share for share in mfu(*step))),
    ("factor", lambda *step: (mfu(*step)[0], 2 * mfu(*step)[1])),
    ("two", lambda *step: mfu(*step)[0]),
    ("two", lambda *step: (*mfu(*step), 0.0)),
    ("none", lambda *step: print(mfu(*step))),
]
ALSO_RIGHT = [for_one_rank, by_ideal_time]
