"""What levers on different parts of a step give together: plain functions for the sliders.

G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing
capabilities", AFIPS Spring Joint Computer Conference (1967) 483-485.
"""


def total_gain(shares, speedups):
    """Compute the gain in throughput when parts of a step become faster.

    Parameters
    ----------
    shares
        Shares of the old step, 0 to 1, of parts that do not overlap.
    speedups
        How many times as fast each part becomes; infinity removes it.

    Returns
    -------
    float
        Old time over new time; infinity when nothing is left.
    """
    left = 1.0
    for k, share in enumerate(shares):
        left += share / speedups[k] - share
    return 1 / left if left > 0 else float("inf")


def two_levers(share_a, speedup_a, share_b, speedup_b):
    """Compare two levers alone and together, for the sliders.

    Parameters
    ----------
    share_a, share_b
        Per cent of the step. If the two exceed 100 together, B is cut to what is left, and `says`
        tells so.
    speedup_a, speedup_b
        How many times as fast the part becomes.

    Returns
    -------
    dict
        `curves` over A's speed-up, the chosen `point`, and what it `says`.
    """
    a = share_a / 100
    b = min(share_b / 100, 1 - a)
    speeds = [1 + k / 4 for k in range(77)]
    both = total_gain([a, b], [speedup_a, speedup_b])
    alone_a, alone_b = total_gain([a], [speedup_a]), total_gain([b], [speedup_b])
    most = "no bound" if a >= 1 else f"at most {1 / (1 - a):.3g} times"
    cut = f"Only {100 * b:.3g} % of the step are left for B. " if 100 * b < share_b - 1e-9 else ""
    return {
        "curves": {
            "A alone": [[f, total_gain([a], [f])] for f in speeds],
            "A and B": [[f, total_gain([a, b], [f, speedup_b])] for f in speeds],
            "multiplied": [[f, total_gain([a], [f]) * alone_b] for f in speeds],
        },
        "point": [speedup_a, both],
        "x": "A's part becomes so many times as fast",
        "y": "times the throughput",
        "says": f"{cut}A alone gives {alone_a:.3g} times ({most}), B alone {alone_b:.3g}, both"
        f" {both:.3g}. Multiplied they would be {alone_a * alone_b:.3g}, added"
        f" {alone_a + alone_b - 1:.3g}.",
    }
