"""More answers to `tree_time`, for the tests alone."""

import math

import torch


def by_doubling(S, N, a, b):
    reached, rounds = 1, 0
    while reached < N:
        reached, rounds = 2 * reached, rounds + 1
    return rounds * (a + S * b) + rounds * (a + b * S)


ALSO_WRONG = [
    ("rounds", lambda S, N, a, b: (N - 1) * (a + S * b)),
    ("rounds", lambda S, N, a, b: math.log2(N) * (a + S * b)),
    ("rounds", lambda S, N, a, b: math.ceil(2 * math.log2(N)) * (a + S * b)),
    ("rounds", lambda S, N, a, b: 2 * round(math.log2(N)) * (a + S * b)),
    ("rounds", lambda S, N, a, b: 2 * math.floor(math.log2(N)) * (a + S * b)),
    ("bytes", lambda S, N, a, b: 2 * (N - 1).bit_length() * (a + S / N * b)),
]
ALSO_RIGHT = [
    by_doubling,
    lambda S, N, a, b: 2 * (N - 1).bit_length() * (a + S * b),
    lambda S, N, a, b: 2 * torch.tensor(float(N)).log2().ceil() * (a + S * b),
]
