"""More answers to `spans_of`, for the tests alone."""

import numpy as np
import torch

from ..exercises.spans import spans_of


def by_a_while(length, window, stride):
    spans, begin, done = [], 0, 1
    while done < length:
        end = begin + window if begin + window < length else length
        spans.append([begin, end, done])
        begin, done = begin + stride, end
    return spans


def by_count(length, window, stride):
    more = max(0, -(-(length - window) // stride))
    spans = [(0, min(window, length), 1)]
    for k in range(1, more + 1):
        end = min(k * stride + window, length)
        spans.append((k * stride, end, spans[-1][1]))
    return tuple(spans)


def from_its_end(length, window, stride):
    spans = []
    for begin in range(0, length, stride):
        end = min(begin + window, length)
        spans.append((begin, end, 1 if begin == 0 else end - stride))
        if end == length:
            break
    return spans


def full_at_last(length, window, stride):
    spans, scored = [], 1
    for begin in range(0, length, stride):
        end = begin + window
        if end > length:
            begin, end = max(0, length - window), length
        spans.append((begin, end, scored))
        scored = end
        if end == length:
            break
    return spans


ALSO_WRONG = [
    ("other", lambda *case: spans_of(*case)[::-1]),
    ("end_minus_stride", from_its_end),
    ("moved_back", full_at_last),
    ("triple", lambda *case: np.array(spans_of(*case))[:, :2]),
    ("triple", lambda *case: np.array(spans_of(*case)).ravel()),
    ("kind", lambda *case: len(spans_of(*case))),
    ("triple", lambda *case: [span[:2] for span in spans_of(*case)]),
    ("none", lambda *case: print(end="")),
    ("missing", lambda *case: spans_of(*case)[1:]),
    ("no_window", lambda *case: []),
    ("counted_twice", lambda *case: [span for span in spans_of(*case) for _ in "ab"]),
    ("no_context", lambda length, window, stride: [
        (k, min(k + stride, length), max(k, 1)) for k in range(0, length, stride)]),
    ("raised", lambda *case: case[9]),
]  # fmt: skip
ALSO_RIGHT = [
    by_a_while,
    by_count,
    lambda *case: np.array(spans_of(*case)),
    lambda *case: map(torch.tensor, spans_of(*case)),
]
