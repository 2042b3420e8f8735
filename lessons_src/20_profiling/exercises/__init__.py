"""The checks of lesson 20: the clock, overlapping time, waiting ranks, and an export of Nsight."""

from . import busy, clock, exposed, nsight, waiting

EXERCISES = {
    "median_seconds": clock.EXERCISE,
    "busy": busy.EXERCISE,
    "exposed": exposed.EXERCISE,
    "waited": waiting.EXERCISE,
    "gpu_shares": nsight.EXERCISE,
}
