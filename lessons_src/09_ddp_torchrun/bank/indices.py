"""More answers to `my_indices`, for the tests alone."""

import random

import numpy as np
import torch
from torch.utils.data import DistributedSampler

# Words of the solution.
MIX = "torch.randperm(samples, generator=generator).tolist()"
EACH = "-(-samples // world_size)"
PAD = "(pack * world_size)[: each * world_size]"
MINE = "pack[rank::world_size]"


def shuffles_later_epochs_by_itself(samples, seed, epoch, rank, world_size):
    pack = list(range(samples))
    random.Random(seed).shuffle(pack)
    for _ in range(epoch):
        random.shuffle(pack)  # a generator that no seed controls
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


def swaps_two(samples, seed, epoch, rank, world_size):
    pack = list(range(samples))
    at = (seed + epoch) % max(1, samples - 1)
    pack[at : at + 2] = pack[at : at + 2][::-1]
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


_packs: dict[tuple[int, int], list[int]] = {}


def keeps_its_packs(samples, seed, epoch, rank, world_size):
    pack = _packs.setdefault((seed, epoch), torch.randperm(samples).tolist())
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


def turns(samples, seed, epoch, rank, world_size):
    each = -(-samples // world_size)
    rows = range(rank, each * world_size, world_size)
    return [(i + 7 * seed + 5 * epoch) % samples for i in rows]


def by_a_text(samples, seed, epoch, rank, world_size):
    pack = sorted(range(samples), key=lambda i: hash(f"{seed}-{epoch}-{i}"))
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


# Right.
def by_a_hash_of_numbers(samples, seed, epoch, rank, world_size):
    pack = list(range(samples))
    random.seed(hash((seed, epoch)))
    random.shuffle(pack)
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


def seeds_everything(samples, seed, epoch, rank, world_size):
    torch.manual_seed(seed + epoch)
    pack = torch.randperm(samples).tolist()
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


def torchs_own(samples, seed, epoch, rank, world_size):
    sampler = DistributedSampler(range(samples), world_size, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def by_numpy(samples, seed, epoch, rank, world_size):
    pack = np.random.default_rng([seed, epoch]).permutation(samples)
    each = -(-samples // world_size)
    return np.resize(pack, each * world_size)[rank::world_size]


ALSO_WRONG = [
    ("everything", {MINE: "pack[:samples]"}),
    ("foreign", {".tolist()": ".add(1).tolist()"}),
    ("too_few", {PAD: "pack + pack[: -samples % world_size]"}),
    ("uneven", {PAD: "pack"}),
    ("dropped", {EACH: "samples // world_size"}),
    ("too_long", {EACH: "samples // world_size + 1", "pack *": "2 * pack *"}),
    ("unseeded", {", generator=generator": ""}),
    ("unseeded", {PAD: "pack + torch.randint(samples, (each * world_size - samples,)).tolist()"}),
    ("same_hand", {MINE: "pack[::world_size]"}),
    ("own_packs", {"seed + epoch": "seed + epoch + rank"}),
    ("left_out", {"pack *": "2 * pack[: samples - (samples == 10)] *"}),
    ("no_seed", {"seed + epoch": "epoch"}),
    ("no_seed", {"seed + epoch": "epoch or seed"}),
    ("unshuffled", {MIX: "list(range(samples))"}),
    ("unshuffled", turns),
    ("unshuffled", swaps_two),
    ("foreign", keeps_its_packs),
    ("unshuffled", {MIX: "list(range(samples))[:: -1 if epoch % 2 else 1]"}),
    ("turned", {"seed + epoch": "seed", MIX: f"(lambda p: p[epoch:] + p[:epoch])({MIX})"}),
    ("turned", {"seed + epoch": "seed + epoch // 2", MIX: f"{MIX}[:: 1 - 2 * (epoch % 2)]"}),
    ("no_epoch", {"seed + epoch": "seed"}),
    ("no_epoch", {"seed + epoch": "10 * seed or epoch"}),
    ("no_epoch", {"seed + epoch": "seed * epoch"}),
    ("no_epoch", {"seed + epoch": "seed + min(epoch, 1)"}),
    ("same_pictures", {MIX: "list(range(samples))",
                       MINE: f"[{MINE}[i] for i in torch.randperm(each, generator=generator)]"}),
    ("kind", {MINE: f"set({MINE})"}),
    ("kind", {MINE: "pack[rank]"}),
    ("kind", {MINE: "[torch.tensor(float(i)) for i in pack[rank::world_size]]"}),
    ("kind", {MINE: "[i + 0.5 for i in pack[rank::world_size]]"}),
    ("empty", {MINE: "pack[samples * world_size :]"}),
    ("own_packs", shuffles_later_epochs_by_itself),
    ("none", {MINE: "None"}),
    ("salted", by_a_text),
    ("salted", {"seed + epoch": 'hash(f"{seed}-{epoch}")'}),
]  # fmt: skip
ALSO_RIGHT = [{MINE: "pack[rank * each : (rank + 1) * each]"}, torchs_own, by_numpy,
              seeds_everything, by_a_hash_of_numbers]  # fmt: skip

DEAL = """\
def my_indices(samples, seed, epoch, rank, world_size):
    generator = torch.Generator().manual_seed(seed + epoch)
    pack = torch.randperm(samples, generator=generator).tolist()
    return {mine}"""
LADDER = (DEAL.format(mine="pack"), DEAL.format(mine="list(pack)"))
