"""More answers to `batches_left`, for the tests alone."""

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


ALSO_WRONG = [
    ("changed", uses_up),
    ("flat", lambda *case: [sample for batch in batches_left(*case) for sample in batch]),
    ("deep", lambda *case: [batches_left(*case)]),
    ("kind", lambda *case: len(batches_left(*case))),
    ("none", lambda *case: print(end="")),
    ("other", lambda *case: batches_left(*case)[:-1]),
    ("other", lambda *case: batches_left(*case)[::-1]),
    ("other", lambda *case: []),
    ("raised", lambda *case: case[9]),
]
ALSO_RIGHT = [by_a_loop, by_generator]
