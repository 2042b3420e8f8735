"""The checks of lesson 01: days, bytes, the share of the peak, and how many GPUs hold a model."""

from . import days, share, states, world

EXERCISES = {
    "training_days": days.EXERCISE,
    "states_gb": states.EXERCISE,
    "mfu": share.EXERCISE,
    "smallest_world": world.EXERCISE,
}
