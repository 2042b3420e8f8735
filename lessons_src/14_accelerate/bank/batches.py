"""More answers to `batch_and_steps`, for the tests alone."""

import math

import numpy as np

from ..exercises.batches import batch_and_steps


def divides_the_batch(samples, batch_size, num_processes, accumulation, split_batches):
    return batch_size // num_processes, math.ceil(samples / batch_size)


def adds_up(samples, batch_size, num_processes, accumulation, split_batches):
    return batch_size + num_processes + accumulation, samples


def by_floats(samples, batch_size, num_processes, accumulation, split_batches):
    each = batch_size / num_processes if split_batches else batch_size
    rounds = math.ceil(samples / (each * num_processes))
    return each * num_processes * accumulation, math.ceil(rounds / accumulation)


def by_counting(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size if split_batches else batch_size * num_processes
    rounds = len(range(0, samples, together))
    return [together * accumulation, len(range(0, rounds, accumulation))]


ALSO_WRONG = [
    ("divided", divides_the_batch),
    ("batch", adds_up),
    (
        "one_more",
        lambda samples, size, n, k, split: (
            (size if split else size * n) * k,
            samples // ((size if split else size * n) * k) + 1,
        ),
    ),
    ("steps", lambda *setting: (batch_and_steps(*setting)[0], batch_and_steps(*setting)[1] + 2)),
    ("not_a_pair", lambda *setting: batch_and_steps(*setting)[0]),
    ("not_a_pair", lambda *setting: dict.fromkeys(batch_and_steps(*setting))),
    ("not_a_pair", lambda *setting: set(batch_and_steps(*setting))),
    ("not_a_pair", lambda *setting: (batch_and_steps(*setting)[0], None)),
]
ALSO_RIGHT = [by_floats, by_counting, lambda *setting: np.array(batch_and_steps(*setting))]
