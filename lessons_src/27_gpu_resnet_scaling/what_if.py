"""What strong scaling buys and costs, if a step computes and then exchanges gradients."""


def strong_step(alone, gradient, bandwidth, latency, hidden, ranks):
    """Seconds of a step on `ranks` GPUs at one global batch.

    A ring all-reduce takes 2(N−1)·(latency + gradient/(N·bandwidth)). A share `hidden` of it runs
    behind the computation, which is assumed to shrink as 1/N.

    Parameters
    ----------
    alone
        Seconds of the step on one GPU.
    gradient
        Bytes of the gradients.
    bandwidth
        Bytes per second in one direction.
    latency
        Seconds of a message.
    hidden
        0 to 1; what is hidden never takes longer than the computation.
    """
    compute = alone / ranks
    exchange = 2 * (ranks - 1) * (latency + gradient / (ranks * bandwidth))
    return compute + exchange - min(hidden * exchange, compute)


def bill(milliseconds, megabytes, gigabytes_per_second, microseconds, hidden, ranks):
    """Compute the hours and GPU hours of 100,000 steps, for the sliders of a what-if.

    Returns
    -------
    dict
        `curves` of hours and of GPU hours over the number of GPUs, and `says`.
    """
    counts = [1, 2, 4, 8, 16, 32, 64]
    setting = (milliseconds / 1e3, megabytes * 1e6, gigabytes_per_second * 1e9, microseconds / 1e6)
    hours = [strong_step(*setting, hidden / 100, n) * 1e5 / 3600 for n in counts]
    mine = strong_step(*setting, hidden / 100, ranks) * 1e5 / 3600
    efficiency = hours[0] / (ranks * mine)
    return {
        "curves": {
            "hours": [[counts[i], hours[i]] for i in range(len(counts))],
            "GPU hours": [[counts[i], counts[i] * hours[i]] for i in range(len(counts))],
        },
        "point": [ranks, mine],
        "x": "GPUs",
        "y": "hours of 100,000 steps",
        "log_x": True,
        "says": f"On {ranks} GPU{'s' if ranks > 1 else ''}: {mine:.2f} h and {ranks * mine:.1f} GPU"
        f" hours, an efficiency of {100 * efficiency:.0f} %.",
    }
