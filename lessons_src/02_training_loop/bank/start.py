"""The bank of lesson 02: the start of a run."""

import random

import numpy as np
import torch

from dtlib.data.batches import seed_of

# --- 2.2 start_run --------------------------------------------------------------------------


def seeded(python=None, numpy=None, torchs=None):
    for seed, set_it in (
        (python, random.seed),
        (numpy, np.random.seed),
        (torchs, torch.manual_seed),
    ):
        if seed is not None:
            set_it(seed)


def model_before_seed(make_model, seed, rank):
    model = make_model()
    own = 1000 * seed + rank
    seeded(own, own, own)
    return model


def rank_in_the_weights(make_model, seed, rank):
    own = 1000 * seed + rank
    seeded(own, own, own)
    return make_model()


def seed_in_no_weights(make_model, seed, rank):
    torch.manual_seed(0)
    model = make_model()
    own = 1000 * seed + rank
    seeded(own, own, own)
    return model


def python_left_alone(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    own = 1000 * seed + rank
    seeded(None, own, own)
    return model


def a_generator_of_its_own(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    own = 1000 * seed + rank
    np.random.default_rng(own)
    seeded(own, None, own)
    return model


def no_rank(make_model, seed, rank):
    seeded(seed, seed, seed)
    return make_model()


def rank_for_torch_alone(make_model, seed, rank):
    seeded(seed, seed, seed)
    model = make_model()
    torch.manual_seed(1000 * seed + rank)
    return model


def rank_without_seed(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    seeded(rank, rank, rank)
    return model


def node_parity(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    own = 1000 * seed + rank % 2
    seeded(own, own, own)
    return model


def forgets_the_model(make_model, seed, rank):
    rank_without_seed(make_model, seed, rank)


def hands_back_the_maker(make_model, seed, rank):
    seeded(seed, seed, seed)
    return make_model


def a_seed_too_large(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    np.random.seed(seed_of(seed, rank))
    return model


# Right.
def by_a_product(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    own = seed * 100_003 + rank + 1
    seeded(own, own, own)
    return model


def by_a_fork(make_model, seed, rank):
    own = seed_of(seed, rank) % 2**32
    seeded(own, own, own)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make_model()


def added(make_model, seed, rank):
    torch.manual_seed(seed)
    model = make_model()
    seeded(seed + rank, seed + rank, seed + rank)
    return model


WRONG = [
    ("start_run", "weights_unseeded", model_before_seed),
    ("start_run", "weights_by_rank", rank_in_the_weights),
    ("start_run", "weights_no_seed", seed_in_no_weights),
    ("start_run", "unseeded", python_left_alone),
    ("start_run", "unseeded", a_generator_of_its_own),
    ("start_run", "same_on_ranks", no_rank),
    ("start_run", "same_on_ranks", node_parity),
    ("start_run", "some_same_on_ranks", rank_for_torch_alone),
    ("start_run", "stream_no_seed", rank_without_seed),
    ("start_run", "none", forgets_the_model),
    ("start_run", "no_model", hands_back_the_maker),
    ("start_run", "raised", a_seed_too_large),
]

RIGHT = [
    ("start_run", by_a_product),
    ("start_run", by_a_fork),
    ("start_run", added),
]
