"""How often to save: what checkpoints cost, and what a failure costs without them.

J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974)
530-531. Numbers only: runs in a page.
"""

import math


def lost(interval, save, failure, restart):
    """Share of the time that is lost to saving, to steps that are taken again, and to restarts.

    Parameters
    ----------
    interval, save
        Seconds from one checkpoint to the next, and that training stands still for each.
    failure, restart
        Mean seconds between failures, and seconds until a failed run trains again.
    """
    return min(1, save / interval), min(1, (interval / 2 + restart) / failure)


def best(save, failure):
    """Young's interval: seconds between checkpoints at which the least time is lost."""
    return math.sqrt(2 * save * failure)


def how_often(minutes, save, hours, nodes, restart):
    """What the page's sliders say.

    Parameters
    ----------
    minutes
        From one checkpoint to the next.
    save
        Seconds that training stands still for a checkpoint.
    hours, nodes
        Mean hours between failures of one node, and the number of nodes.
    restart
        Minutes until a failed run trains again.
    """
    failure = 3600 * hours / nodes
    xs = [2 ** (k / 4 - 2) for k in range(41)]
    parts = [lost(60 * x, save, failure, 60 * restart) for x in xs]
    shares = {
        "saving": [part[0] for part in parts],
        "steps taken again, and restarts": [part[1] for part in parts],
        "both": [min(1, sum(part)) for part in parts],
    }
    curves = {
        name: [[x, 100 * share] for x, share in zip(xs, line)]  # noqa: B905 (for pages)
        for name, line in shares.items()
    }
    total = 100 * min(1, sum(lost(60 * minutes, save, failure, 60 * restart)))
    optimum = best(save, failure) / 60
    says = (
        f"{nodes} nodes fail every {failure / 3600:.3g} hours on average; with a checkpoint every "
        f"{minutes:g} minutes, {total:.3g} % of the time is lost. The loss is smallest with one "
        f"every {optimum:.3g} minutes: the square root of 2 times {save:g} s times {failure:.3g} s."
    )
    return {"curves": curves, "says": says, "x": "minutes between checkpoints",
            "y": "time lost, %", "log_x": True, "point": [minutes, total]}  # fmt: skip
