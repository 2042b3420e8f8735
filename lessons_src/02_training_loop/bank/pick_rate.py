"""More answers to `pick_rate`, for the tests alone."""

import numpy as np
import torch

from ..exercises.pick_rate import pick_rate

RETURN = "return chosen / 10"  # words of the solution


def by_slices(rates, losses):
    end = next((k for k in range(1, len(losses)) if not losses[k] <= 4 * min(losses[:k])), None)
    return rates[losses.index(min(losses[:end]))] / 10


def by_numpy(rates, losses):
    losses = np.asarray(losses)
    bad = ~(losses <= 4 * np.fmin.accumulate(losses))
    end = int(bad.argmax()) if bad.any() else len(losses)
    return np.asarray(rates)[losses[:end].argmin()] / 10


def in_fp32(rates, losses):
    return torch.tensor(pick_rate(rates, losses))


ALSO_WRONG = [
    # the last before the loss diverged
    ("last_rate", {"if loss < best:\n            best, chosen = loss, rate":
                   "best, chosen = min(best, loss), rate"}),
    ("nan_wins", lambda rates, losses: rates[int(np.argmin(losses))] / 10),
    ("other", {RETURN: "return chosen / 100"}),
    ("rounded", {"chosen / 10": "float(f'{chosen / 10:.2g}')"}),
    ("rounded", {"chosen / 10": "round(chosen / 10, 6)"}),
    ("changed", {RETURN: f"losses.sort()\n    {RETURN}"}),
    ("none", {RETURN: "print(chosen / 10)"}),
    ("no_number", {RETURN: 'return f"{chosen / 10:g}"'}),
    ("many", lambda rates, losses: torch.tensor([pick_rate(rates, losses), losses[0]])),
]  # fmt: skip
ALSO_RIGHT = [by_slices, by_numpy, in_fp32]
RARE = {"graph"}
