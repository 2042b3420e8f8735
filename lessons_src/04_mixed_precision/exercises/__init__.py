"""Checks of lesson 04: bits, loss scaling, master weights, the order of a clip, fp8."""

from dtlib.learn.checking import Exercise

from . import clipped, decode, fp8, master, scaled

EXERCISES = {
    "decode": Exercise(decode.check, decode.reference, minutes=10),
    "scaled_step": Exercise(scaled.check, scaled.reference, minutes=12),
    "master_step": Exercise(master.check, master.reference, minutes=8),
    "to_fp8": Exercise(fp8.check, fp8.reference, minutes=8),
    "clipped_step": Exercise(clipped.check, clipped.reference, minutes=10),
}
