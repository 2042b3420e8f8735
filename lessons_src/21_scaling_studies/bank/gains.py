"""More answers to `verdict`, for the tests only."""

from statistics import mean

from ..exercises.gains import by, verdict


def from_changes(before, after):
    changes = [b - a for a, b in zip(before, after, strict=True)]
    if len(changes) < 2 or min(changes) <= 0 <= max(changes):
        return "noise"
    return "gain" if min(changes) > 0 else "loss"


def counted(before, after):
    up = sum(b > a for a, b in zip(before, after, strict=True))
    down = sum(b < a for a, b in zip(before, after, strict=True))
    if len(before) > 1 and len(before) in (up, down):
        return "gain" if up else "loss"
    return "noise"


ALSO_WRONG = [
    ("median_only", by(lambda before, after: mean(after) - mean(before))),
    ("two", {"len(before) > 1 and signs == {1}": "len(before) > 2 and signs == {1}"}),
    ("two", {"len(before) > 1 and signs == {-1}": "len(before) > 2 and signs == {-1}"}),
    ("not_a_word", lambda before, after: verdict(before, after) == "gain"),
]
ALSO_RIGHT = [from_changes, counted]
