"""More answers to `start_run`, for the tests alone."""

import random

import numpy as np
import torch

from dtlib.data.batches import seed_of

FIRST, OWN = "torch.manual_seed(seed)", 'seed_of("rank", seed, rank)'  # words of the solution
PYTHON, NUMPY = "    random.seed(own)\n", "np.random.seed(own % 2**32)"


# Right.
def by_a_fork(make_model, seed, rank):
    own = seed_of(seed, rank) % 2**32
    for set_it in (random.seed, np.random.seed, torch.manual_seed):
        set_it(own)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make_model()


# Wrong: one stream for all ranks, in which each begins a little later.
def by_burning(make_model, seed, rank):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    model = make_model()
    for _ in range(rank):
        random.random(), np.random.rand(), torch.rand(())
    return model


BURNT = "torch.manual_seed(seed); torch.rand(100 + rank)"
ALSO_WRONG = [
    ("shifted", by_burning),
    ("shifted", {"torch.manual_seed(own)": BURNT}),
    ("weights_unseeded", {FIRST: "pass"}),
    ("weights_by_rank", {FIRST: "torch.manual_seed(1000 * seed + rank)"}),
    ("weights_no_seed", {FIRST: "torch.manual_seed(0)"}),
    ("unseeded", {PYTHON: ""}),
    ("unseeded", {NUMPY: "np.random.default_rng(own)"}),
    ("same_on_ranks", {OWN: "seed"}),
    ("same_on_ranks", {OWN: "1000 * seed + rank % 2"}),
    ("some_same_on_ranks", {PYTHON: PYTHON.replace("own", "seed"), "own %": "seed %"}),
    ("stream_no_seed", {OWN: "rank"}),
    ("same_on_ranks", {OWN: "seed * rank"}),
    ("same_on_ranks", {OWN: "seed or rank"}),
    ("same_on_ranks", {OWN: "seed | rank"}),
    ("same_on_ranks", {OWN: "max(seed, rank)"}),
    ("same_on_ranks", {OWN: "abs(seed - rank)"}),
    ("salted", {FIRST: 'torch.manual_seed(abs(hash(f"weights {seed}")))'}),
    ("salted", {OWN: 'abs(hash(f"{seed} {rank}"))'}),
    ("salted", {OWN: 'abs(hash((seed, "rank", rank)))'}),
    ("few_seeds", {"own % 2**32": "own % 1024"}),
    ("few_seeds", {OWN: "seed + rank % 64"}),
    ("none", {"return model": "model"}),
    ("no_model", {"return model": "return make_model"}),
    ("other_model", {"make_model()": "torch.nn.Linear(4, 3)"}),
    ("raised", {" % 2**32": ""}),
]
ALSO_RIGHT = [by_a_fork, {OWN: "abs(hash((seed, rank)))"}, {OWN: "seed ^ rank"},
              {OWN: 'seed_of("rank", seed, rank) + 0 * hash("a name")'},
              {OWN: "seed * 100_003 + rank + 1"}, {OWN: "seed + rank"}]  # fmt: skip
