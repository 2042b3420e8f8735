"""Checks of lesson 09: dealing out samples, exact scores, DDP's gradient, one writer."""

from dtlib.learn.checking import Exercise

from . import ddp_loss, exact_mean, indices, save_once

EXERCISES = {
    "my_indices": Exercise(indices.check, indices.reference, minutes=10),
    "exact_mean": Exercise(exact_mean.check, exact_mean.reference, minutes=10),
    "ddp_loss": Exercise(ddp_loss.check, ddp_loss.reference, minutes=12),
    "save_once": Exercise(save_once.check, save_once.reference, minutes=8),
}
