"""More answers to `deal_chunks`, for the tests alone."""

import torch


# Right.
def from_the_outside(ranks):
    left = list(range(2 * ranks))
    return [(left.pop(0), left.pop()) for _ in range(ranks)]


def last_rank_first(ranks):
    return [[ranks + r, ranks - 1 - r] for r in range(ranks)]


def as_a_tensor(ranks):
    chunks = torch.arange(2 * ranks)
    return torch.stack([chunks[:ranks], chunks.flip(0)[:ranks]], 1)


def neighbours(ranks):
    return [[2 * r, 2 * r + 1] for r in range(ranks)]


ALSO_WRONG = [
    ("neighbours", neighbours),
    ("neighbours", lambda ranks: [list(range(2 * r, 2 * r + 2)) for r in range(ranks)]),
    ("round_robin", lambda ranks: [[r, r + ranks] for r in range(ranks)]),
    ("round_robin", lambda ranks: [[r + ranks, r] for r in range(ranks)]),
    ("uneven", lambda ranks: neighbours(ranks)[::-1]),
    ("uneven", lambda ranks: [[r, (r + 1) % ranks + ranks] for r in range(ranks)]),
    ("no_chunk", {"2 * ranks - 1 - r": "2 * ranks - r"}),
    ("no_chunk", lambda ranks: [[r + 1, 2 * ranks - r] for r in range(ranks)]),
    ("twice", {"2 * ranks - 1 - r": "2 * ranks - 1"}),
    ("twice", lambda ranks: [[r, ranks - 1 - r] for r in range(ranks)]),
    ("left_out", lambda ranks: [[r] for r in range(ranks)]),
    ("counts", lambda ranks: [list(range(ranks + 1)), list(range(ranks + 1, 2 * ranks)),
                              *([] for _ in range(ranks - 2))]),
    ("ranks", lambda ranks: [[r, 2 * ranks - 1 - r] for r in range(2 * ranks)]),
    ("ranks", lambda ranks: from_the_outside(ranks)[:1]),
    ("lists", lambda ranks: list(range(2 * ranks))),
    ("lists", lambda ranks: dict(enumerate(from_the_outside(ranks)))),
    ("lists", lambda ranks: [[[k] for k in pair] for pair in from_the_outside(ranks)]),
    ("none", lambda ranks: print(ranks)),
    ("raised", lambda ranks: from_the_outside(ranks)[ranks]),
]  # fmt: skip
ALSO_RIGHT = [from_the_outside, last_rank_first, as_a_tensor]
