"""More answers to `start_run`, for the tests alone."""

import random

import numpy as np
import torch

from dtlib.data.batches import seed_of
from dtlib.learn.solutions import altered

from ..exercises.start_run import EXERCISE

FIRST, OWN = "torch.manual_seed(seed)", 'seed_of("rank", seed, rank)'  # words of the solution
PYTHON, NUMPY = "    random.seed(own)\n", "np.random.seed(own % 2**32)"


def by(words):
    return altered(EXERCISE.reference, words)


# Right.
def by_a_fork(make_model, seed, rank):
    own = seed_of(seed, rank) % 2**32
    for set_it in (random.seed, np.random.seed, torch.manual_seed):
        set_it(own)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make_model()


ALSO_WRONG = [
    ("weights_unseeded", by({FIRST: "pass"})),
    ("weights_by_rank", by({FIRST: "torch.manual_seed(1000 * seed + rank)"})),
    ("weights_no_seed", by({FIRST: "torch.manual_seed(0)"})),
    ("unseeded", by({PYTHON: ""})),
    ("unseeded", by({NUMPY: "np.random.default_rng(own)"})),
    ("same_on_ranks", by({OWN: "seed"})),
    ("same_on_ranks", by({OWN: "1000 * seed + rank % 2"})),
    ("some_same_on_ranks", by({PYTHON: PYTHON.replace("own", "seed"), "own %": "seed %"})),
    ("stream_no_seed", by({OWN: "rank"})),
    ("none", by({"return model": "model"})),
    ("no_model", by({"return model": "return make_model"})),
    ("raised", by({" % 2**32": ""})),
]
ALSO_RIGHT = [by_a_fork, by({OWN: "seed * 100_003 + rank + 1"}), by({OWN: "seed + rank"})]
