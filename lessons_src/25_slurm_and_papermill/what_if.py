"""How long a training takes when it is split into jobs with a time limit: plain functions."""

import math


def in_pieces(work, limit, start_up, between, wait, told):
    """Hours until a training is done, and how many jobs that takes.

    A job that is not warned of its end is cut off, and on average loses half of the time between
    two checkpoints.

    Parameters
    ----------
    work
        Hours of training.
    limit
        Hours that a job may run.
    start_up
        Hours until a job trains: modules, data, compilation.
    between
        Hours between two checkpoints.
    wait
        Hours that each job spends in the queue.
    told
        Whether a job is warned of its end in time to write a checkpoint.

    Returns
    -------
    tuple
        Hours, jobs, and hours of computing that were wasted: start-up and lost steps. When a job
        gets nowhere: infinity, 0, infinity.
    """
    lost = 0 if told else between / 2
    trains = limit - start_up
    useful = trains - lost
    never_saves = useful <= 0 or (not told and trains < between)
    if trains <= 0 or (work > trains and never_saves):
        return math.inf, 0, math.inf
    # the last job is not cut off, so it loses nothing
    cut = math.ceil((work - trains) / useful) if work > trains else 0
    jobs = cut + 1
    wasted = jobs * start_up + cut * lost
    return work + wasted + jobs * wait, jobs, wasted


def pieces(work, limit, start_up, between, wait):
    """Days over the time limit, for the sliders of a what-if; `start_up`, `between` in minutes.

    Returns
    -------
    dict
        `curves` of days over the limit in hours, with and without a warning before the end, and
        `says`.
    """
    start, gap = start_up / 60, between / 60
    limits = list(range(1, 49))
    lines = []
    for told in (True, False):
        points = [(one, in_pieces(work, one, start, gap, wait, told)[0]) for one in limits]
        lines.append([[one, hours / 24] for one, hours in points if hours < math.inf])
    hours, jobs, wasted = in_pieces(work, limit, start, gap, wait, True)
    cut_hours, cut_jobs, cut_wasted = in_pieces(work, limit, start, gap, wait, False)
    if jobs == 0:
        says = "A job of that length ends before it trains."
    else:
        says = f"Warned in time: {_jobs(jobs)}, {hours / 24:.2f} days, {wasted:.1f} h wasted."
        if cut_jobs == 0:
            says += " Cut off: each job ends before its first checkpoint, so training never ends."
        else:
            says += (
                f" Cut off: {_jobs(cut_jobs)}, {cut_hours / 24:.2f} days, {cut_wasted:.1f} h"
                " wasted."
            )
    return {
        "curves": {"warned in time": lines[0], "cut off": lines[1]},
        "point": [limit, hours / 24 if jobs else 0],
        "x": "time limit of a job, hours",
        "y": "days until it is done",
        "says": says,
    }


def _jobs(count):
    return "1 job" if count == 1 else f"{count} jobs"
