"""How long a step takes when loading, computing and communicating overlap: plain functions."""


def step_time(compute, communication, hidden, load, workers):
    """Seconds of a step, and what it waits for.

    Workers load ahead, so a batch is ready every `load / workers` seconds at best; without workers
    the step loads it itself. A share `hidden` of the communication runs behind the computation.

    Parameters
    ----------
    compute, communication, load
        Seconds of a step's computation, of its messages, and of making one batch.
    hidden
        0 to 1; the hidden part cannot last longer than the computation.
    workers
        Processes that load.

    Returns
    -------
    tuple
        Seconds of the step, and of these the input wait and the exposed communication.
    """
    exposed = communication - min(hidden * communication, compute)
    busy = compute + exposed
    if workers == 0:
        return busy + load, load, exposed
    total = max(busy, load / workers)
    return total, total - busy, exposed


def what_bounds(compute, communication, hidden, load, workers):
    """The step over the number of workers, for the sliders of a what-if.

    Times in milliseconds, `hidden` in per cent.

    Returns
    -------
    dict
        `curves` of the step, its computation and its input wait over workers, and `says`.
    """
    share = hidden / 100
    counts = list(range(17))
    steps = [step_time(compute, communication, share, load, n) for n in counts]
    total, wait, exposed = steps[workers]
    # a list, so that of two equal parts the first is named: MicroPython's dicts have no order
    parts = [
        ("input", wait),
        ("communication", exposed),
    ]
    bound = max(parts, key=lambda part: part[1])[0]
    if max(wait, exposed) < total / 5:
        bound = "compute"
    return {
        "curves": {
            "step": [[n, steps[n][0]] for n in counts],
            "compute": [[n, compute] for n in counts],
            "input wait": [[n, steps[n][1]] for n in counts],
        },
        "point": [workers, total],
        "x": "loader workers",
        "y": "ms",
        "says": f"A step takes {total:.3g} ms: {compute:.3g} computing, {wait:.3g} waiting for a"
        f" batch, {exposed:.3g} waiting for messages. By the verdict's rule it is {bound}-bound.",
    }
