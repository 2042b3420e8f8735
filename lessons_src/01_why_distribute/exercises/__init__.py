"""The checks of lesson 01: days, bytes, the share of the peak, and how many GPUs hold a model."""

from dtlib.learn.checking import Exercise

from ..what_if import smallest_world, training_days
from . import days, share, states, world

EXERCISES = {
    "training_days": Exercise(check=days.check, reference=training_days, minutes=8),
    "states_gb": Exercise(check=states.check, reference=states.states_gb, minutes=10),
    "mfu": Exercise(check=share.check, reference=share.mfu, minutes=7),
    "smallest_world": Exercise(check=world.check, reference=smallest_world, minutes=12),
}
