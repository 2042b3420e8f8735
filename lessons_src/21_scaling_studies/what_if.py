"""Strong and weak scaling of a step that has a serial share and an all-reduce: plain functions.

This is Amdahl's law, a share of the step that cannot be divided among ranks, plus an all-reduce in
a ring, whose time grows as (N-1)/N. All times are in units of a step on one rank.

G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS 30 (1967) 483-485. A. H. Karp and H. P. Flatt, "Measuring parallel processor
performance", Communications of the ACM 33 (1990) 539-543, https://doi.org/10.1145/78607.78614
"""


def strong_step(ranks, serial, communication):
    """Return the time of a step at the same global batch, where all but a share is divided.

    Parameters
    ----------
    ranks
        N.
    serial
        Share of the step on one rank that cannot be divided, 0 to 1.
    communication
        Time of the exposed all-reduce on very many ranks, as a share of the step on one rank.
    """
    return serial + (1 - serial) / ranks + communication * (ranks - 1) / ranks


def weak_step(ranks, communication):
    """Return the time of a step with the same batch on each rank, where no work is divided."""
    return 1 + communication * (ranks - 1) / ranks


def serial_share(speedup, ranks):
    """Return the share of a step that behaves as if it were serial (Karp and Flatt's e)."""
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)


def efficiencies(power, serial, communication):
    """Compute efficiency over ranks for the sliders; shares are in per cent, ranks are 2**power.

    Returns
    -------
    dict
        `curves` of strong and weak efficiency over ranks, the chosen `point`, and what it `says`.
    """
    part, wire = serial / 100, communication / 100
    counts = [2**k for k in range(11)]
    ranks = 2**power
    strong = [[n, 1 / (n * strong_step(n, part, wire))] for n in counts]
    weak = [[n, 1 / weak_step(n, wire)] for n in counts]
    at = strong[power][1]
    return {
        "curves": {"strong": strong, "weak": weak},
        "point": [ranks, at],
        "x": "ranks",
        "y": "efficiency",
        "log_x": True,
        "says": f"Simulated, {ranks} ranks: strong scaling is {at * ranks:.3g} times as fast as one"
        f" rank, an efficiency of {at:.2f}; weak scaling keeps {weak[power][1]:.2f}.",
    }
