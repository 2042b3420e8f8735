"""The checks of lesson 27: a share of the peak, the cheapest GPUs in time, time to accuracy."""

from dtlib.learn.checking import Exercise

from . import accuracy, peak, price

EXERCISES = {
    "share_of_peak": Exercise(peak.check, peak.reference, minutes=8),
    "cheapest_in_time": Exercise(price.check, price.reference, minutes=12),
    "hours_to_accuracy": Exercise(accuracy.check, accuracy.reference, minutes=10),
}
