"""A training run on the back of an envelope: days, GPU hours, money, and how many GPUs hold it.

A step takes 6 FLOP for each parameter and token (J. Kaplan et al., arXiv:2001.08361, section 2.1;
`flops` has the exact counts). Mixed precision with Adam stores 16 bytes per parameter
(S. Rajbhandari et al., arXiv:1910.02054, section 3.1; `states` has the other recipes).

Plain functions on numbers that import `math` alone: they also run in the browser. Symbols: Ψ
parameters, N ranks, one GPU each; 1 GB = 10⁹ bytes.
"""

import math

DAY = 86_400  # seconds
STATES = 16  # bytes per parameter: 2 weight, 2 gradient, 4 fp32 copy, 4 + 4 Adam's moments
# Bytes per parameter that a stage of ZeRO divides among the ranks; the rest is on every rank.
DIVIDED = {0: 0, 1: 12, 2: 14, 3: 16}


def training_days(parameters, tokens, gpus, teraflops, mfu):
    """Days of a run.

    Parameters
    ----------
    parameters, tokens
        Ψ, and the tokens that the model is trained on.
    gpus
        How many.
    teraflops
        Dense peak of one, TFLOP/s.
    mfu
        Share of the peak that useful FLOP make, 0 to 1.
    """
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def gpu_hours(parameters, tokens, teraflops, mfu):
    """GPU hours of a run: the same on any number of GPUs, as long as the MFU is the same."""
    return 24 * training_days(parameters, tokens, 1, teraflops, mfu)


def run_mfu(parameters, tokens, hours, teraflops):
    """MFU of a run that took so many GPU hours, by the rule of 6 FLOP."""
    return gpu_hours(parameters, tokens, teraflops, 1) / hours


def states_gb(parameters, stage, ranks):
    """GB of model states on each rank under a stage of ZeRO; stage 0 is plain data parallelism."""
    divided = DIVIDED[stage]
    return parameters * (STATES - divided + divided / ranks) / 1e9


def smallest_world(parameters, stage, memory_gb, activations_gb):
    """The fewest ranks on which states and activations fit; None where no number is enough.

    Parameters
    ----------
    parameters
        Ψ.
    stage
        0 to 3; `DIVIDED` has the bytes that each divides.
    memory_gb
        Memory of one GPU.
    activations_gb
        What one GPU needs beside the states, however many ranks there are.
    """
    whole, divided = STATES - DIVIDED[stage], DIVIDED[stage]
    room = memory_gb - activations_gb - whole * parameters / 1e9
    if room < 0 or (divided and room == 0):
        return None
    # the division may miss a whole number by a rounding error, and 4.0000000001 ranks are 4
    return max(1, math.ceil(divided * parameters / 1e9 / room - 1e-9)) if divided else 1


def envelope(billions, trillions, gpus, mfu_percent, teraflops, price):
    """Days, memory and money of a run, for the sliders of a what-if.

    Parameters
    ----------
    billions, trillions
        Ψ in 10⁹, tokens in 10¹².
    gpus
        How many.
    mfu_percent
        100 times the MFU.
    teraflops
        Dense peak of one GPU, TFLOP/s.
    price
        Of an hour of one GPU.

    Returns
    -------
    dict
        `curves` of days over GPUs at the same MFU, `point` (this run), and `says`.
    """
    parameters, tokens, mfu = billions * 1e9, trillions * 1e12, mfu_percent / 100
    counts = sorted({max(1, gpus // 4), max(1, gpus // 2), gpus, 2 * gpus, 4 * gpus})
    curve = [[n, training_days(parameters, tokens, n, teraflops, mfu)] for n in counts]
    days = training_days(parameters, tokens, gpus, teraflops, mfu)
    hours = gpu_hours(parameters, tokens, teraflops, mfu)
    each, shared = states_gb(parameters, 0, gpus), states_gb(parameters, 3, gpus)
    return {
        "curves": {"days": curve},
        "point": [gpus, days],
        "x": "GPUs",
        "y": "days",
        "log_x": True,
        "says": f"Estimated: {_short(days)} days on {gpus:.0f} GPU{'s' * (gpus != 1)}, "
        + f"{_short(hours)} GPU hours, "
        + f"which cost {_short(hours * price)} at {price:g} per hour. States: {_short(each)} GB on "
        + f"every GPU, or {_short(shared)} GB if they are sharded over all GPUs.",
    }


def _short(value):
    """Three digits, in words above a million: 0.123, 45.6, 7,890, 1.23 million."""
    if value >= 1e9:
        return f"{value / 1e9:.3g} billion"
    if value >= 1e6:
        return f"{value / 1e6:.3g} million"
    # MicroPython groups the digits of whole numbers alone
    return f"{int(value + 0.5):,}" if value >= 100 else f"{value:.3g}"
