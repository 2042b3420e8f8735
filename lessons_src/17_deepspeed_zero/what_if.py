"""How much memory precision and sharding save, each alone, on one rank and on many.

Plain functions: they also run in the browser. Bytes a parameter are those of S. Rajbhandari et al.,
"ZeRO", SC 2020, arXiv:1910.02054, section 3.1: 2 + 2 + 12 in mixed precision; in fp32 4 + 4 + 8.
Activations are assumed to be half as large in 16 bits. Symbols: Ψ parameters, N ranks.
"""

BYTES = {"fp32": (4, 4, 8), "16 bits": (2, 2, 12)}  # weights, gradients, optimizer with its copy


def held(parameters, ranks, stage, precision, activations):
    """Bytes of one rank: the states, divided by the stage, and activations, which no stage divides.

    Parameters
    ----------
    parameters
        Ψ.
    ranks
        N.
    stage
        0 to 3.
    precision
        "fp32" or "16 bits".
    activations
        Bytes of activations in fp32.
    """
    weights, gradients, optimizer = BYTES[precision]
    total = weights / (ranks if stage >= 3 else 1)
    total += gradients / (ranks if stage >= 2 else 1)
    total += optimizer / (ranks if stage >= 1 else 1)
    return parameters * total + activations / (1 if precision == "fp32" else 2)


def savings(millions, activations, stage, ranks):
    """Compare precision alone, sharding alone and both, for the sliders of a what-if.

    Parameters
    ----------
    millions
        Ψ in millions.
    activations
        GB of activations in fp32.
    stage
        1 to 3.
    ranks
        N.

    Returns
    -------
    dict
        `curves` of GB over ranks, `point` (both, at N), and `says`.
    """
    counts = sorted({1, 2, 4, 8, 16, 32, 64, ranks})
    settings = [
        ("neither", "fp32", 0),
        ("16 bits", "16 bits", 0),
        ("sharded", "fp32", stage),
        ("both", "16 bits", stage),
    ]
    curves, here = {}, []
    for label, precision, z in settings:
        sizes = [held(millions * 1e6, n, z, precision, activations * 1e9) / 1e9 for n in counts]
        curves[label] = [[counts[i], sizes[i]] for i in range(len(counts))]
        here.append(sizes[counts.index(ranks)])
    saved = [round(100 * (1 - size / here[0])) for size in here]
    return {
        "curves": curves,
        "point": [ranks, here[3]],
        "x": "ranks N",
        "y": "GB on each rank",
        "log_x": True,
        "says": f"{ranks} rank{'s' if ranks > 1 else ''}: {here[0]:.1f} GB in fp32 with nothing "
        + f"sharded. 16 bits alone save {saved[1]} %, stage {stage} alone {saved[2]} %, "
        + f"both {saved[3]} %.",
    }
