"""More answers to `batches_left`, for the tests alone."""

import numpy as np
import torch

from ..exercises.left import batches_left


def by_a_loop(order, taken, size, old_world, rank, world):
    found, k = [], taken * size * old_world
    while k + size * world <= len(order):
        found.append(list(order[k + rank * size : k + rank * size + size]))
        k += size * world
    return found


def by_generator(order, taken, size, old_world, rank, world):
    every = [order[k : k + size] for k in range(taken * old_world * size, len(order), size)]
    whole = len(every) - (len(every[-1]) < size if every else 0)
    return tuple(map(tuple, every[: whole // world * world][rank::world]))


def uses_up(order, taken, size, old_world, rank, world):
    del order[: taken * size * old_world]
    return batches_left(order, 0, size, 1, rank, world)


def by_array(order, taken, size, old_world, rank, world):
    step = size * world
    rest = np.array(order[taken * size * old_world :], dtype=int)
    return rest[: len(rest) // step * step].reshape(-1, world, size)[:, rank]


def rank_alone(order, taken, size, old_world, rank, world):
    left, batches = order[taken * size * old_world :], []
    for start in range(0, len(left) - size * world + 1, size * world):
        batches.append(left[start + rank : start + rank + size])
    return batches


def with_empty_ones(order, taken, size, old_world, rank, world):
    right = batches_left(order, taken, size, old_world, rank, world)
    return right + [[]] * (len(order) // size - len(right))


ALSO_WRONG = [
    ("rank_alone", rank_alone),
    ("last_kept", with_empty_ones),
    ("too_few", {"range(steps)": "range(min(steps, 1))"}),
    ("deep", lambda *case: by_array(*case)[None]),
    ("changed", uses_up),
    ("flat", lambda *case: [sample for batch in batches_left(*case) for sample in batch]),
    ("deep", lambda *case: [batches_left(*case)]),
    ("kind", lambda *case: len(batches_left(*case))),
    ("none", lambda *case: print(end="")),
    ("too_few", lambda *case: batches_left(*case)[:-1]),
    ("other", lambda *case: batches_left(*case)[::-1]),
    ("too_few", lambda *case: []),
    ("raised", lambda *case: case[9]),
]
ALSO_RIGHT = [by_a_loop, by_generator, by_array, lambda *case: torch.tensor(by_array(*case))]
