"""What a hang costs until the time-out ends it."""

import math


def hang_curve(power, minutes, price):
    """Device-hours and money that a hang costs, by the time-out.

    Parameters
    ----------
    power
        Devices of the job, as a power of two.
    minutes
        The time-out of a collective.
    price
        Of one device for an hour.
    """
    devices = 2 ** int(power)
    points = [[m, devices * m / 60] for m in range(1, 61)]
    lost = devices * minutes / 60
    return {
        "curves": {"device-hours": points},
        "x": "time-out in minutes",
        "y": "device-hours lost",
        "point": [minutes, lost],
        "says": f"{devices} devices wait {minutes} minutes for one: {lost:.1f} device-hours, which"
        f" cost {math.ceil(lost * price)}. A shorter time-out ends it earlier, but it must outlast"
        " your longest pause: a checkpoint, an evaluation or the first step.",
    }
