"""The checks of lesson 21: efficiency, a verdict on a gain, the serial share, a plan of runs."""

from . import efficiencies, gains, planning, shares

EXERCISES = {
    "efficiency": efficiencies.EXERCISE,
    "verdict": gains.EXERCISE,
    "serial_share": shares.EXERCISE,
    "plan": planning.EXERCISE,
}
