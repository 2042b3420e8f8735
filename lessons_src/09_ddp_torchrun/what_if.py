"""How many samples a padded deal counts twice. Plain functions: they also run in the browser."""


def rows_dealt(samples, ranks):
    """Rows that all ranks get together, when each of them gets equally many: N·⌈n/N⌉."""
    return ranks * -(-samples // ranks)


def padding(samples, ranks, points):
    """Compare a score over padded rows with the exact one, for the sliders of a what-if.

    Parameters
    ----------
    samples
        n, in the test set.
    ranks
        N.
    points
        By how much the repeated samples differ from the mean, in points of a score in per cent.

    Returns
    -------
    dict
        `curves` of the error in points over ranks, `point` (at N), and `says`.
    """
    counts = sorted(set(range(1, 65)) | {ranks})
    errors = [[n, _error(samples, n, points)] for n in counts]
    extra = rows_dealt(samples, ranks) - samples
    error = _error(samples, ranks, points)
    return {
        "curves": {"padded": errors, "exact": [[n, 0.0] for n in counts]},
        "point": [ranks, error],
        "x": "ranks N",
        "y": "error, points",
        "says": f"{samples} samples on {ranks} ranks: {samples + extra} rows, {extra} too many. "
        + f"If those are {points} points off, the score is {error:.3g} points off.",
    }


def _error(samples, ranks, points):
    rows = rows_dealt(samples, ranks)
    return points * (rows - samples) / rows
