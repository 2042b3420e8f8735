"""The checks of lesson 21: efficiency, a verdict on a gain, the serial share, a plan of runs."""

from . import efficiencies, gains, planning, shares

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (efficiencies, gains, shares, planning)}
