"""More answers to `exact_mean`, for the tests alone."""

import torch
import torch.distributed as dist


def mine(values, samples):
    return values[: len(range(dist.get_rank(), samples, dist.get_world_size()))]


def leaves_between(values, samples):
    total, count = mine(values, samples).sum(), torch.tensor(float(len(mine(values, samples))))
    dist.all_reduce(total)
    if not len(mine(values, samples)):
        return 0.0
    dist.all_reduce(count)
    return total / count


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


ALSO_WRONG = [("stayed_home", mean_of_the_real)]
HANG = [("left_early", leaves_between)]
ALSO_RIGHT = [gathers_by_place, counts_by_hand, by_objects]
