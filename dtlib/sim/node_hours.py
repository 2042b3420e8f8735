"""Node-hours of a training, and an efficiency beyond the ranks on which it was measured.

Plain functions on numbers, no imports: they also run in the browser.
"""


def node_hours(flop, peak, mfu, efficiency, gpus_per_node, runs=1, reserve=0.0):
    """Return the node-hours of so many runs, not rounded.

    Parameters
    ----------
    flop
        FLOP of one run.
    peak
        Dense peak of one GPU in FLOP/s.
    mfu
        Share of the peak that one GPU alone reaches, 0 to 1.
    efficiency
        What is left of that on all GPUs together, 0 to 1; 1 is ideal.
    gpus_per_node
        GPUs of a node, all of which are paid for.
    reserve
        Share that is added for runs that fail, such as 0.1.
    """
    return gpu_hours(flop, peak, mfu) / efficiency / gpus_per_node * runs * (1 + reserve)


def gpu_hours(flop, peak, mfu):
    """Return the hours that one GPU alone would need."""
    return flop / (peak * mfu) / 3600


def extrapolated(kind, efficiency, measured, wanted):
    """Return the efficiency on `wanted` ranks if a ring all-reduce causes all of the loss.

    On N ranks each rank sends (N-1)/N of what it sends on very many, and nothing hides that. With
    the time c of that on very many ranks, in units of a step on one rank, a weak step takes
    1 + c(N-1)/N, and a strong one 1/N + c(N-1)/N. The measured efficiency gives c. All links are
    taken to be alike, so this is too good where the measurement stayed inside a node.

    Parameters
    ----------
    kind
        "strong" or "weak".
    efficiency
        Measured on `measured` ranks, at least 2; above 1 counts as 1.
    """
    lost = 1 / min(efficiency, 1) - 1
    if kind == "strong":
        return 1 / (1 + lost / (measured - 1) * (wanted - 1))
    return 1 / (1 + lost * measured / (measured - 1) * (wanted - 1) / wanted)
