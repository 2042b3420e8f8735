"""More answers to `exact_mean`, for the tests alone."""

import torch
import torch.distributed as dist


def mine(values, samples):
    return values[: len(range(dist.get_rank(), samples, dist.get_world_size()))]


def mean_of_the_real(values, samples):
    own = mine(values, samples)
    return own.mean() if len(own) else 0.0


# Right.
def gathers_by_place(values, samples):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.stack(parts, dim=1).flatten()[:samples].mean()


def counts_by_hand(values, samples):
    total = mine(values, samples).sum()
    dist.all_reduce(total)
    return total / samples


def by_objects(values, samples):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine(values, samples).tolist())
    flat = [v for own in everyone for v in own]
    return sum(flat) / len(flat)


def to_digits(digits):
    return lambda values, samples: round(float(counts_by_hand(values, samples)), digits)


def wipes_its_padding(values, samples):
    values[len(mine(values, samples)) :] = 0
    total = values.sum()
    dist.all_reduce(total)
    return total / samples


ALSO_WRONG = [
    ("stayed_home", mean_of_the_real),
    ("changed", wipes_its_padding),
    ("value", {"mine.sum()": "mine.max()"}),
    *(("rounded", to_digits(digits)) for digits in (0, 2, 3, 4)),
]
ALSO_RIGHT = [gathers_by_place, counts_by_hand, by_objects]
