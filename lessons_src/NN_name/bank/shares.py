"""More answers to `largest_share`, for the tests alone."""

from ..exercises.shares import largest_share


def by_dealing(samples, ranks):
    shares = [0] * ranks
    for sample in range(samples):
        shares[sample % ranks] += 1
    return max(shares)


def by_remainder(samples, ranks):
    whole, left = divmod(samples, ranks)
    return whole + (left > 0)


ALSO_WRONG = [
    ("other", lambda samples, ranks: 7),
    ("none", lambda samples, ranks: print(largest_share(samples, ranks))),
]
ALSO_RIGHT = [by_dealing, by_remainder]
LADDER = (
    "def largest_share(samples, ranks):\n    return samples // ranks",
    "def largest_share(samples, ranks):\n    return math.floor(samples / ranks)",
)
