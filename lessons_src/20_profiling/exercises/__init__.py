"""The checks of lesson 20: the clock, overlapping time, waiting ranks, and an export of Nsight."""

from dtlib.learn.checking import Exercise

from . import clock, nsight, spans, waiting

EXERCISES = {
    "median_seconds": Exercise(clock.check, clock.reference, minutes=10),
    "busy": Exercise(spans.check_busy, spans.busy, minutes=8),
    "exposed": Exercise(spans.check_exposed, spans.exposed, minutes=10),
    "waited": Exercise(waiting.check, waiting.reference, minutes=8),
    "gpu_shares": Exercise(nsight.check, nsight.reference, minutes=15),
}
