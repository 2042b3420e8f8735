"""Checks of lesson 04: bits, loss scaling, master weights, the order of a clip, fp8."""

from . import clipped, decode, fp8, master, scaled

EXERCISES = {
    "decode": decode.EXERCISE,
    "scaled_step": scaled.EXERCISE,
    "master_step": master.EXERCISE,
    "to_fp8": fp8.EXERCISE,
    "clipped_step": clipped.EXERCISE,
}
