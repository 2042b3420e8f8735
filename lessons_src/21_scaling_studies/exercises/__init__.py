"""The checks of lesson 21: efficiency, a verdict on a gain, the serial share, a plan of runs."""

from dtlib.learn.checking import Exercise

from ..what_if import serial_share
from . import efficiencies, gains, planning, shares

EXERCISES = {
    "efficiency": Exercise(efficiencies.check, efficiencies.reference, minutes=12),
    "verdict": Exercise(gains.check, gains.reference, minutes=8),
    "serial_share": Exercise(shares.check, serial_share, minutes=8),
    "plan": Exercise(planning.check, planning.reference, minutes=12),
}
