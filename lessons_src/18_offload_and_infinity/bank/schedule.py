"""More answers to `finish_times`, for the tests alone."""

import numpy as np
import torch

from ..exercises.schedule import finish_times


# Right.
def three_lists(read, update, write, windows):
    is_read, is_updated, is_written = [], [], []
    for i, (r, u, w) in enumerate(zip(read, update, write, strict=True)):
        free = is_written[i - windows] if i - windows >= 0 else 0
        is_read.append(max(free, is_read[-1] if i else 0) + r)
        is_updated.append(max(is_read[-1], is_updated[-1] if i else 0) + u)
        is_written.append(max(is_updated[-1], is_written[-1] if i else 0) + w)
    return list(map(list, zip(is_read, is_updated, is_written, strict=True)))


def with_clocks(read, update, write, windows):
    reader = updater = writer = 0
    free = [0] * windows
    for i, (r, u, w) in enumerate(zip(read, update, write, strict=True)):
        reader = max(reader, free[i % windows]) + r
        updater = max(updater, reader) + u
        writer = max(writer, updater) + w
        free[i % windows] = writer
        yield reader, updater, writer


def by_a_queue(read, update, write, windows):
    """Takes its chunks out of the lists that it was given."""
    done = [(0, 0, 0)] * windows
    while read:
        is_read = max(done[-1][0], done[-windows][2]) + read.pop(0)
        is_updated = max(done[-1][1], is_read) + update.pop(0)
        done.append((is_read, is_updated, max(done[-1][2], is_updated) + write.pop(0)))
    return done[windows:]


def as_an_array(*given):
    return np.array(finish_times(*given))


def as_tensors(*given):
    return [torch.tensor(row) for row in finish_times(*given)]


ALSO_WRONG = [
    ("total", lambda *given: finish_times(*given)[-1][2]),
    ("kind", lambda *given: dict(enumerate(finish_times(*given)))),
    ("count", lambda *given: finish_times(*given)[:-1]),
    ("no_triple", lambda *given: [row[2] for row in finish_times(*given)]),
    ("no_triple", lambda *given: [None for _ in finish_times(*given)]),
    ("no_triple", lambda *given: np.array(finish_times(*given))[:, :2]),
    ("none", lambda *given: finish_times(*given).sort()),
    ("unrecognised", lambda *given: [(a, b, c + 1) for a, b, c in finish_times(*given)]),
]
ALSO_RIGHT = [three_lists, with_clocks, by_a_queue, as_an_array, as_tensors]
