"""More answers to `may_attend`, for the tests alone."""

import numpy as np
import torch


def pair_by_pair(window, end):
    s = len(window)
    mask = torch.zeros(s, s, dtype=torch.bool)
    for i in range(s):
        for k in range(i, -1, -1):
            if k < i and window[k] == end:
                break
            mask[i, k] = True
    return mask


def as_lists(window, end):
    number, numbers = 0, []
    for token in window.tolist():
        numbers.append(number)
        number += token == end
    s = len(numbers)
    return [[k <= i and numbers[i] == numbers[k] for k in range(s)] for i in range(s)]


def as_an_array(window, end):
    is_end = window.numpy() == end
    number = np.cumsum(is_end) - is_end
    return np.tril(number[:, None] == number[None, :])


def as_ones(window, end):
    is_end = (window == end).int()
    number = is_end.cumsum(0) - is_end
    return (number[:, None] == number[None, :]).int().tril()


ALSO_WRONG = [
    ("changed", {"is_end = window == end": "window -= end\n    is_end = window == 0"}),
    ("not_square", {"return causal & same": "return (causal & same)[0]"}),
    ("not_square", {"return causal & same": "return (causal & same)[None]"}),
    (
        "floats",
        {"return causal & same": "return torch.zeros(s, s).where(causal & same, -torch.inf)"},
    ),
    ("kind", lambda window, end: "lower triangle"),
    ("none", lambda window, end: print(window)),
    ("other", {"return causal & same": "return (causal & same).roll(1, 0)"}),
]
ALSO_RIGHT = [pair_by_pair, as_lists, as_an_array, as_ones]
