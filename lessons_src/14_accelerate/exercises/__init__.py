"""The checks of lesson 14: the schedule, the batches, the tail and the score under Accelerate."""

from . import accuracy, batches, schedule, tail

EXERCISES = {
    "scheduler_for": schedule.EXERCISE,
    "batch_and_steps": batches.EXERCISE,
    "loss_for_backward": tail.EXERCISE,
    "exact_accuracy": accuracy.EXERCISE,
}
