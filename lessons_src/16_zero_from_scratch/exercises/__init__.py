"""Checks of lesson 16: ZeRO's three stages by hand, and the paper's table."""

from dtlib.learn.checking import Exercise

from . import accumulate, held, norm, schedule, sent, stage1

EXERCISES = {
    "stage1": Exercise(stage1.check, stage1.reference, minutes=12),
    "add_gradients": Exercise(accumulate.check, accumulate.reference, minutes=9),
    "global_norm": Exercise(norm.check, norm.reference, minutes=5),
    "zero3_schedule": schedule.EXERCISE,
    "held": held.EXERCISE,
    "sent": sent.EXERCISE,
}
