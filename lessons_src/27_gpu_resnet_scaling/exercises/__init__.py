"""The checks of lesson 27: a share of the peak, the cheapest GPUs in time, time to accuracy."""

from . import accuracy, peak, price

EXERCISES = {
    "share_of_peak": peak.EXERCISE,
    "cheapest_in_time": price.EXERCISE,
    "hours_to_accuracy": accuracy.EXERCISE,
}
