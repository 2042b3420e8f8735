"""The checks of lesson 14: the schedule, the batches, the tail and the score under Accelerate."""

from dtlib.learn.checking import Exercise

from . import accuracy, batches, schedule, tail

EXERCISES = {
    "scheduler_for": Exercise(schedule.check, schedule.reference, minutes=10),
    "batch_and_steps": Exercise(batches.check, batches.reference, minutes=10),
    "loss_for_backward": Exercise(tail.check, tail.reference, minutes=12),
    "exact_accuracy": Exercise(accuracy.check, accuracy.reference, minutes=12),
}
