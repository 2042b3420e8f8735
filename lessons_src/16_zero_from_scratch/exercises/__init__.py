"""Checks of lesson 16: ZeRO's three stages by hand, and the paper's table."""

from . import accumulate, held, norm, schedule, sent, stage1

EXERCISES = {
    "stage1": stage1.EXERCISE,
    "add_gradients": accumulate.EXERCISE,
    "global_norm": norm.EXERCISE,
    "zero3_schedule": schedule.EXERCISE,
    "held": held.EXERCISE,
    "sent": sent.EXERCISE,
}
