"""More answers to `my_indices`, for the tests alone."""

import numpy as np
from torch.utils.data import DistributedSampler

from dtlib.learn.solutions import altered

from ..exercises.indices import EXERCISE

# Words of the solution.
MIX = "torch.randperm(samples, generator=generator).tolist()"
EACH = "-(-samples // world_size)"
PAD = "(pack * world_size)[: each * world_size]"
MINE = "pack[rank::world_size]"


def by(words):
    """The solution in other words."""
    return altered(EXERCISE.reference, words)


# Right.
def torchs_own(samples, seed, epoch, rank, world_size):
    sampler = DistributedSampler(range(samples), world_size, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def by_numpy(samples, seed, epoch, rank, world_size):
    pack = np.random.default_rng([seed, epoch]).permutation(samples)
    each = -(-samples // world_size)
    return np.resize(pack, each * world_size)[rank::world_size]


ALSO_WRONG = [
    ("everything", by({MINE: "pack[:samples]"})),
    ("foreign", by({".tolist()": ".add(1).tolist()"})),
    ("too_few", by({PAD: "pack + pack[: -samples % world_size]"})),
    ("uneven", by({PAD: "pack"})),
    ("dropped", by({EACH: "samples // world_size"})),
    ("too_long", by({EACH: "samples // world_size + 1", "pack *": "2 * pack *"})),
    ("unseeded", by({", generator=generator": ""})),
    ("same_hand", by({MINE: "pack[::world_size]"})),
    ("own_packs", by({"seed + epoch": "seed + epoch + rank"})),
    ("left_out", by({"pack *": "2 * pack[: samples - (samples == 10)] *"})),
    ("no_seed", by({"seed + epoch": "epoch"})),
    ("no_seed", by({"seed + epoch": "epoch or seed"})),
    ("unshuffled", by({MIX: "list(range(samples))"})),
    ("no_epoch", by({"seed + epoch": "seed"})),
    (
        "same_pictures",
        by(
            {
                MIX: "list(range(samples))",
                MINE: f"[{MINE}[i] for i in torch.randperm(each, generator=generator)]",
            }
        ),
    ),
    ("kind", by({MINE: f"set({MINE})"})),
    ("kind", by({MINE: "pack[rank]"})),
    ("none", by({MINE: "None"})),
]
ALSO_RIGHT = [by({MINE: "pack[rank * each : (rank + 1) * each]"}), torchs_own, by_numpy]

DEAL = """\
def my_indices(samples, seed, epoch, rank, world_size):
    generator = torch.Generator().manual_seed(seed + epoch)
    pack = torch.randperm(samples, generator=generator).tolist()
    return {mine}"""
LADDER = (DEAL.format(mine="pack"), DEAL.format(mine="list(pack)"))
