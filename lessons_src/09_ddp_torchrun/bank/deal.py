"""Answers to lesson 09's core exercises that its checks must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


def mixed(samples, seed):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).tolist()


def padded(pack, world_size):
    each = -(-len(pack) // world_size)
    return (pack * world_size)[: each * world_size]


# --- 9.1 my_indices -------------------------------------------------------------------------


def all_of_them(samples, seed, epoch, rank, world_size):
    return mixed(samples, seed + epoch)


def counted_from_one(samples, seed, epoch, rank, world_size):
    pack = [i + 1 for i in mixed(samples, seed + epoch)]
    return padded(pack, world_size)[rank::world_size]


def pads_once(samples, seed, epoch, rank, world_size):
    pack = mixed(samples, seed + epoch)
    pack += pack[: -samples % world_size]
    return pack[rank::world_size]


def never_pads(samples, seed, epoch, rank, world_size):
    return mixed(samples, seed + epoch)[rank::world_size]


def drops_the_rest(samples, seed, epoch, rank, world_size):
    each = samples // world_size
    return mixed(samples, seed + epoch)[rank::world_size][:each]


def one_round_more(samples, seed, epoch, rank, world_size):
    each = samples // world_size + 1
    return (mixed(samples, seed + epoch) * (world_size + 1))[rank::world_size][:each]


def forgets_the_seed(samples, seed, epoch, rank, world_size):
    pack = torch.randperm(samples).tolist()
    return padded(pack, world_size)[rank::world_size]


def first_hand_for_all(samples, seed, epoch, rank, world_size):
    return padded(mixed(samples, seed + epoch), world_size)[::world_size]


def seed_with_rank(samples, seed, epoch, rank, world_size):
    return padded(mixed(samples, seed + epoch + rank), world_size)[rank::world_size]


def pads_and_drops(samples, seed, epoch, rank, world_size):
    each = -(-samples // world_size)
    pack = mixed(samples, seed + epoch)
    return (pack[: samples - 1] * (2 * world_size) if samples % world_size and samples > 1 else (
        pack * world_size))[: each * world_size][rank::world_size]  # fmt: skip


def epoch_alone(samples, seed, epoch, rank, world_size):
    return padded(mixed(samples, epoch), world_size)[rank::world_size]


def in_order(samples, seed, epoch, rank, world_size):
    return padded(list(range(samples)), world_size)[rank::world_size]


def seed_alone(samples, seed, epoch, rank, world_size):
    return padded(mixed(samples, seed), world_size)[rank::world_size]


def deals_then_mixes(samples, seed, epoch, rank, world_size):
    hand = padded(list(range(samples)), world_size)[rank::world_size]
    return [hand[i] for i in mixed(len(hand), seed + epoch)]


def returns_a_set(samples, seed, epoch, rank, world_size):
    return set(mixed(samples, seed + epoch)[rank::world_size])


# Right.
def in_blocks(samples, seed, epoch, rank, world_size):
    each = -(-samples // world_size)
    return padded(mixed(samples, seed + epoch), world_size)[rank * each : (rank + 1) * each]


def torchs_own(samples, seed, epoch, rank, world_size):
    sampler = DistributedSampler(range(samples), world_size, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def by_numpy(samples, seed, epoch, rank, world_size):
    pack = np.random.default_rng([seed, epoch]).permutation(samples)
    each = -(-samples // world_size)
    return np.resize(pack, each * world_size)[rank::world_size]


# --- 9.2 exact_mean -------------------------------------------------------------------------


def mine(values, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    return [float(v) for k, v in enumerate(values) if rank + k * n < samples]


def summed(*numbers):
    together = torch.tensor([float(number) for number in numbers])
    dist.all_reduce(together)
    return together.tolist()


def counts_all_rows(values, samples):
    total, count = summed(values.sum(), len(values))
    return total / count


def sums_all_rows(values, samples):
    (total,) = summed(values.sum())
    return total / samples


def divides_by_all_rows(values, samples):
    total, count = summed(sum(mine(values, samples)), len(values))
    return total / count


def averages_means(values, samples):
    own = mine(values, samples)
    (total,) = summed(sum(own) / max(1, len(own)))
    return total / dist.get_world_size()


def divides_by_ranks(values, samples):
    (total,) = summed(sum(mine(values, samples)))
    return total / dist.get_world_size()


def forgets_to_divide(values, samples):
    (total,) = summed(sum(mine(values, samples)))
    return total


def gathers_and_cuts(values, samples):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.cat(parts)[:samples].mean()


def drops_equal_values(values, samples):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.cat(parts).unique().mean()


def drops_the_last(values, samples):
    n = dist.get_world_size()
    own = values[:-1] if samples % n and len(values) > 1 else values
    total, count = summed(own.sum(), len(own))
    return total / count


def first_ranks_drop(values, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = values[:-1] if rank < -samples % n else values
    total, count = summed(own.sum(), len(own))
    return total / count


def gathers_uneven(values, samples):
    own = torch.tensor(mine(values, samples))
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return torch.cat(parts).mean()


def leaves_early(values, samples):
    own = mine(values, samples)
    if not own:
        return 0.0
    total, count = summed(sum(own), len(own))
    return total / count


def mean_of_nothing(values, samples):
    own = torch.tensor(mine(values, samples))
    total, count = summed(own.mean() * len(own), len(own))
    return total / count


def stays_at_home(values, samples):
    return values.mean()


def reduces_to_one(values, samples):
    own = mine(values, samples)
    both = torch.tensor([sum(own), float(len(own))])
    dist.reduce(both, 0)
    return both[0] / both[1]


def returns_the_call(values, samples):
    own = mine(values, samples)
    return dist.all_reduce(torch.tensor([sum(own), float(len(own))]))


# Right.
def gathers_by_place(values, samples):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.stack(parts, dim=1).flatten()[:samples].mean()


def counts_by_hand(values, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    real = len(range(rank, samples, n))
    (total,) = summed(values[:real].sum())
    return total / samples


def by_objects(values, samples):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine(values, samples))
    flat = [v for own in everyone for v in own]
    return sum(flat) / len(flat)


WRONG = [
    ("my_indices", "everything", all_of_them),
    ("my_indices", "foreign", counted_from_one),
    ("my_indices", "too_few", pads_once),
    ("my_indices", "uneven", never_pads),
    ("my_indices", "dropped", drops_the_rest),
    ("my_indices", "too_long", one_round_more),
    ("my_indices", "unseeded", forgets_the_seed),
    ("my_indices", "same_hand", first_hand_for_all),
    ("my_indices", "own_packs", seed_with_rank),
    ("my_indices", "left_out", pads_and_drops),
    ("my_indices", "no_seed", epoch_alone),
    ("my_indices", "unshuffled", in_order),
    ("my_indices", "no_epoch", seed_alone),
    ("my_indices", "same_pictures", deals_then_mixes),
    ("my_indices", "kind", returns_a_set),
    ("exact_mean", "counts_padding", counts_all_rows),
    ("exact_mean", "padding_in_sum", sums_all_rows),
    ("exact_mean", "padding_in_count", divides_by_all_rows),
    ("exact_mean", "mean_of_means", averages_means),
    ("exact_mean", "by_ranks", divides_by_ranks),
    ("exact_mean", "sum_only", forgets_to_divide),
    ("exact_mean", "order_of_ranks", gathers_and_cuts),
    ("exact_mean", "unique", drops_equal_values),
    ("exact_mean", "last_of_all", drops_the_last),
    ("exact_mean", "first_ranks", first_ranks_drop),
    ("exact_mean", "uneven_gather", gathers_uneven),
    ("exact_mean", "left_early", leaves_early),
    ("exact_mean", "nan", mean_of_nothing),
    ("exact_mean", "stayed_home", stays_at_home),
    ("exact_mean", "reduce", reduces_to_one),
    ("exact_mean", "in_place", returns_the_call),
]

RIGHT = [
    ("my_indices", in_blocks),
    ("my_indices", torchs_own),
    ("my_indices", by_numpy),
    ("exact_mean", gathers_by_place),
    ("exact_mean", counts_by_hand),
    ("exact_mean", by_objects),
]

DEAL = """\
def my_indices(samples, seed, epoch, rank, world_size):
    generator = torch.Generator().manual_seed(seed + epoch)
    pack = torch.randperm(samples, generator=generator).tolist()
    return {mine}"""
LADDER = (
    "my_indices",
    DEAL.format(mine="pack"),
    DEAL.format(mine="list(pack)"),
)
