"""Checks of lesson 04: bits, loss scaling, master weights, the order of a clip, fp8."""

from . import clipped, decode, fp8, master, scaled

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (decode, scaled, master, fp8, clipped)}
