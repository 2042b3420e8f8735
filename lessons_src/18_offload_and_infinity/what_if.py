"""What fits where, and how slow it is: the states' places against three memories and two links.

Plain functions: they also run in the browser. All in mixed precision, 2 + 2 + 12 bytes a
parameter; a test compares the bytes moved with `dtlib.sim.traffic`. The times are a model: 6 FLOP a
parameter and token at 40 % of the card's peak, and nothing overlaps, so they are the slowest case.
The time of Adam on the CPU is left out, and so are activations.
"""

from dtlib.sim.hardware import DEVICES, peak
from dtlib.sim.states import model_states

WAYS = ["zero3", "offload", "infinity"]
CARDS = ["v100", "a100-80", "h100", "h200"]
REACHED = 0.4  # of the peak: what ZeRO-Infinity's abstract reports, arXiv:2104.07857


def places(parameters, ranks, way):
    """Bytes of a rank in each place: `device`, `host` and `disk`."""
    held = model_states(parameters, ranks, way, "mixed", kept="paper")
    return {place: sum(held[place].values()) for place in held}


def moved(parameters, ranks, way):
    """Bytes of a rank in a step of one micro-batch: over the `bus`, and to and from the `disk`."""
    each = {"zero3": (0, 0), "offload": (2 + 2, 0), "infinity": (2 + 2 * 2, 2 * 2 + 12 + 2 + 12)}
    share = -(-parameters // ranks)
    return {"bus": each[way][0] * share, "disk": each[way][1] * share}


def seconds(parameters, ranks, way, tokens, speed, bus, disk):
    """Seconds of a step if nothing overlaps.

    Parameters
    ----------
    tokens
        That one card computes in a step.
    speed
        FLOP/s that the card reaches.
    bus, disk
        Bytes a second of one card's link to the host, and of its part of the disks.
    """
    over = moved(parameters, ranks, way)
    return 6 * parameters * tokens / speed + over["bus"] / bus + over["disk"] / disk


def what_fits(billions, ranks, card, host, bus, disk, tokens_power):
    """Seconds a step over tokens for three ways, and which of them fit, for sliders.

    Parameters
    ----------
    billions
        Ψ in billions.
    ranks
        N.
    card
        A place in `CARDS`, from 1 on.
    host
        GB of the host's memory for each card.
    bus, disk
        GB/s of the link between card and host, and of the disks, for each card.
    tokens_power
        One card computes 2**tokens_power tokens in a step.

    Returns
    -------
    dict
        `curves` in seconds over tokens, `point` (the first way that fits, otherwise infinity), and
        `says`.
    """
    parameters, name = int(billions * 1e9), CARDS[card - 1]
    device = DEVICES[name]
    speed = REACHED * peak(name, "mixed")
    tokens = 2**tokens_power
    counts = [2**k for k in range(8, 18)]
    curves: dict = {}
    fit, said = [], []
    for way in WAYS:
        times = [seconds(parameters, ranks, way, t, speed, bus * 1e9, disk * 1e9) for t in counts]
        curves[way] = [[counts[i], times[i]] for i in range(len(counts))]
        held = places(parameters, ranks, way)
        over = [
            f"{held[place] / 1e9:.0f} GB on the {place}"
            for place, room in (("device", device["memory"]), ("host", host * 1e9))
            if held[place] > room
        ]
        if over:
            said.append(f"{way} needs {' and '.join(over)}")
        else:
            fit.append(way)
            said.append(f"{way} fits, {times[counts.index(tokens)]:.3g} s a step")
    best = fit[0] if fit else "infinity"
    point = seconds(parameters, ranks, best, tokens, speed, bus * 1e9, disk * 1e9)
    return {
        "curves": curves,
        "point": [tokens, point],
        "x": "tokens that a card computes in a step",
        "y": "seconds a step, nothing overlapped",
        "log_x": True,
        "says": f"Simulated, without activations: {billions:g} billion parameters on {ranks} "
        + f"{'card' if ranks == 1 else 'cards'} ({device['title']}): {'; '.join(said)}.",
    }
