"""Bubble and memory of a pipeline's schedules. Numbers only: runs in a page."""

from dtlib.sim.pipeline import SCHEDULES, bubble, kept_activations, messages

NAMES = ("GPipe", "1F1B", "interleaved", "ZB-H1")


def bubble_curve(ranks, groups, schedule, chunks):
    """Bubble over micro-batches, for the sliders of a what-if.

    Parameters
    ----------
    ranks
        N.
    groups
        Micro-batches in a step, in multiples of N.
    schedule
        0 to 3: see `NAMES`.
    chunks
        Stages on a rank, for the interleaved schedule.

    Returns
    -------
    dict
        `curves` of idle over computing time by schedule, `point`, and `says`.
    """
    curves: dict = {}
    for k in range(4):
        curves[NAMES[k]] = []
        for group in range(1, 17):
            many = group * ranks
            stages = chunks if k == 2 else 1
            curves[NAMES[k]].append([many, bubble(SCHEDULES[k], ranks, many, chunks=stages)])
    many, stages = groups * ranks, chunks if schedule == 2 else 1
    now = bubble(SCHEDULES[schedule], ranks, many, chunks=stages)
    kept = kept_activations(SCHEDULES[schedule], 0, ranks, many, stages)
    sent = messages(1, ranks, many, stages) if ranks > 2 else messages(0, ranks, many, stages)
    return {
        "curves": curves,
        "point": [many, now],
        "x": "micro-batches M",
        "y": "idle over computing time",
        "says": f"Simulated, F = B = W: {NAMES[schedule]} with {ranks} ranks and {many} "
        + f"micro-batches is idle for {now:.3g} of its computing time. Rank 0 keeps {kept:.3g} "
        + f"micro-batches' activations, and a rank sends up to {sent} messages a step.",
    }
