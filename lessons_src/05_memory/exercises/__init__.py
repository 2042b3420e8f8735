"""The checks of lesson 05, one file for each exercise: bytes counted, kept, chunked, and fitted."""

from . import by_hand, chunked, fitting, recompute

EXERCISES = {
    "mlp_bytes": by_hand.EXERCISE,
    "checkpoint": recompute.EXERCISE,
    "chunked_loss": chunked.EXERCISE,
    "largest_batch": fitting.EXERCISE,
}
