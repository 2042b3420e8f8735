"""The checks of lesson 05, one file for each exercise: bytes counted, kept, chunked, and fitted."""

from dtlib.learn.checking import Exercise

from . import by_hand, chunked, fitting, recompute

EXERCISES = {
    "mlp_bytes": Exercise(check=by_hand.check, reference=by_hand.reference, minutes=10),
    "checkpoint": Exercise(check=recompute.check, reference=recompute.reference, minutes=15),
    "chunked_loss": Exercise(check=chunked.check, reference=chunked.reference, minutes=12),
    "largest_batch": Exercise(check=fitting.check, reference=fitting.reference, minutes=8),
}
