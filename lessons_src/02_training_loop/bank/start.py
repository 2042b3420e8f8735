"""The bank of lesson 02: the start of a run, and a learning rate from a range test."""

import itertools
import math
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


# --- 2.5 pick_rate --------------------------------------------------------------------------


def until_it_diverges(rates, losses, reference=min):
    """How many losses come before the first that is nan or above four times the lowest so far."""
    for i, loss in enumerate(losses):
        if i and not loss <= 4 * reference(losses[:i]):
            return i
    return len(losses)


def lowest(rates, losses):
    kept = losses[: until_it_diverges(rates, losses)]
    return kept.index(min(kept))


def the_edge_itself(rates, losses):
    return rates[lowest(rates, losses)]


def the_place(rates, losses):
    return lowest(rates, losses)


def the_loss(rates, losses):
    return losses[lowest(rates, losses)]


def all_the_way(rates, losses):
    pairs = [(loss, rate) for loss, rate in zip(losses, rates, strict=True) if loss == loss]
    return min(pairs)[1] / 10


def by_argmin(rates, losses):
    return rates[int(np.argmin(losses))] / 10


def four_times_the_first(rates, losses):
    kept = losses[: until_it_diverges(rates, losses, lambda before: before[0])]
    return rates[kept.index(min(kept))] / 10


def the_last(rates, losses):
    return rates[until_it_diverges(rates, losses) - 1] / 10


def the_steepest(rates, losses):
    kept = losses[: until_it_diverges(rates, losses)]
    falls = [b - a for a, b in itertools.pairwise(kept)]
    return rates[falls.index(min(falls)) + 1] / 10 if falls else rates[0] / 10


def the_one_before(rates, losses):
    return rates[max(0, lowest(rates, losses) - 1)] / 10


def a_hundredth(rates, losses):
    return rates[lowest(rates, losses)] / 100


def returns_nan(rates, losses):
    return the_edge_itself(rates, losses) / 10 + (math.nan if max(losses) > 2.5 else 0)


def sorts_in_place(rates, losses):
    result = rates[lowest(rates, losses)] / 10
    losses.sort()
    return result


def says_it(rates, losses):
    print(rates[lowest(rates, losses)] / 10)


def in_words(rates, losses):
    return f"{rates[lowest(rates, losses)] / 10:g}"


def both(rates, losses):
    i = lowest(rates, losses)
    return torch.tensor([rates[i] / 10, losses[i]])


# Right.
def by_slices(rates, losses):
    return rates[lowest(rates, losses)] / 10


def by_numpy(rates, losses):
    losses = np.asarray(losses)
    best = np.fmin.accumulate(losses)
    bad = ~(losses <= 4 * best)
    end = int(bad.argmax()) if bad.any() else len(losses)
    return np.asarray(rates)[losses[:end].argmin()] / 10


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
    ("pick_rate", "not_a_tenth", the_edge_itself),
    ("pick_rate", "index", the_place),
    ("pick_rate", "loss", the_loss),
    ("pick_rate", "after_divergence", all_the_way),
    ("pick_rate", "nan_wins", by_argmin),
    ("pick_rate", "against_first", four_times_the_first),
    ("pick_rate", "last_rate", the_last),
    ("pick_rate", "steepest", the_steepest),
    ("pick_rate", "before", the_one_before),
    ("pick_rate", "other", a_hundredth),
    ("pick_rate", "nan", returns_nan),
    ("pick_rate", "changed", sorts_in_place),
    ("pick_rate", "none", says_it),
    ("pick_rate", "no_number", in_words),
    ("pick_rate", "many", both),
]

RIGHT = [
    ("start_run", by_a_product),
    ("start_run", by_a_fork),
    ("start_run", added),
    ("pick_rate", by_slices),
    ("pick_rate", by_numpy),
]

RARE = {("pick_rate", "graph")}
