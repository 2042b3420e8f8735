"""More answers to `pick_rate`, for the tests alone."""

import numpy as np
import torch

from ..exercises.pick_rate import pick_rate


def until_it_diverges(losses):
    """The losses before the first that is nan or above four times the lowest so far."""
    for k, loss in enumerate(losses):
        if k and not loss <= 4 * min(losses[:k]):
            return losses[:k]
    return losses


def the_last(rates, losses):
    return rates[len(until_it_diverges(losses)) - 1] / 10


def sorts_in_place(rates, losses):
    result = pick_rate(rates, losses)
    losses.sort()
    return result


def by_slices(rates, losses):
    kept = until_it_diverges(losses)
    return rates[kept.index(min(kept))] / 10


def by_numpy(rates, losses):
    losses = np.asarray(losses)
    bad = ~(losses <= 4 * np.fmin.accumulate(losses))
    end = int(bad.argmax()) if bad.any() else len(losses)
    return np.asarray(rates)[losses[:end].argmin()] / 10


ALSO_WRONG = [
    ("last_rate", the_last),
    ("nan_wins", lambda rates, losses: rates[int(np.argmin(losses))] / 10),
    ("other", lambda rates, losses: pick_rate(rates, losses) / 10),
    ("changed", sorts_in_place),
    ("none", lambda rates, losses: print(pick_rate(rates, losses))),
    ("no_number", lambda rates, losses: f"{pick_rate(rates, losses):g}"),
    ("many", lambda rates, losses: torch.tensor([pick_rate(rates, losses), losses[0]])),
]
ALSO_RIGHT = [by_slices, by_numpy]
RARE = {"graph"}
