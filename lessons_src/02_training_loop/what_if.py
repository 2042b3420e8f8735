"""How far an accuracy moves by luck alone. Plain functions: they also run in the browser."""

import math


def standard_error(accuracy, pictures):
    """Standard error of an accuracy: sqrt(p(1 - p) / n), of a binomial share of n test pictures."""
    return math.sqrt(accuracy * (1 - accuracy) / pictures)


def luck(percent, pictures, points):
    """Ask whether a difference of two accuracies may be luck, for the sliders of a what-if.

    Both models are tested on as many pictures, drawn apart from each other, and twice the standard
    error of the difference, sqrt(2) times that of one, is called luck (a 95 % interval, by the
    normal approximation).

    Parameters
    ----------
    percent
        Accuracy of either, in per cent.
    pictures
        n, tested.
    points
        The difference that was seen, in points of per cent.

    Returns
    -------
    dict
        `curves` over n, `point` (at n), and `says`.
    """
    counts = [100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10000]
    counts = sorted(set(counts) | {pictures})
    bound = _bound(percent, pictures)
    verdict = "may be luck" if points <= bound else "is more than that"
    return {
        "curves": {
            "luck": [[n, _bound(percent, n)] for n in counts],
            "seen": [[n, points] for n in counts],
        },
        "point": [pictures, bound],
        "x": "test pictures n",
        "y": "points of accuracy",
        "log_x": True,
        "says": f"At {percent} % on {pictures} pictures for each model their luck makes up to "
        + f"{bound:.2g} points: a "
        + f"difference of {points} {verdict}.",
    }


def _bound(percent, pictures):
    return 100 * 2 * math.sqrt(2) * standard_error(percent / 100, pictures)
