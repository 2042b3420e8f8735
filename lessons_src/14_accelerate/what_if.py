"""How far a prepared scheduler has come in a schedule: plain functions on numbers."""

import math


def rate_left(step, steps, processes):
    """The share of the first learning rate that is left at a step of the optimizer.

    The schedule falls along a line from 1 to 0 over `steps`, and Accelerate steps it once for each
    process (https://huggingface.co/docs/accelerate/concept_guides/performance).

    Parameters
    ----------
    step
        A step of the optimizer, counted from 0.
    steps
        The steps that the schedule was written for.
    processes
        N, each of which has its own batches (`split_batches=False`).
    """
    return max(0.0, 1 - step * processes / steps)


def prepared_schedule(processes, steps):
    """The rate that was asked for and the one that comes, for the sliders of a what-if.

    Returns
    -------
    dict
        `curves` of the share of the first rate over optimizer steps, and `says`.
    """
    places = sorted({round(steps * k / 40) for k in range(41)} | {math.ceil(steps / processes)})
    asked = [[k, rate_left(k, steps, 1)] for k in places]
    came = [[k, rate_left(k, steps, processes)] for k in places]
    end = min(steps, math.ceil(steps / processes))
    idle = 100 * (steps - end) / steps
    return {
        "curves": {"asked for": asked, "prepared": came},
        "x": "optimizer step",
        "y": "learning rate, share of the first",
        "says": f"A line over {steps} steps on {processes} "
        + ("process" if processes == 1 else "processes")
        + f": the rate is 0 from step {end} on, and {idle:.0f} % of the steps change nothing.",
    }
