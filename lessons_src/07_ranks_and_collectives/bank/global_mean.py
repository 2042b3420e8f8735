"""More answers to `global_mean`, for the tests alone."""

import torch
import torch.distributed as dist


def gathers_uneven(values):
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values)
    return torch.cat(parts).mean().item()


def skips_the_second_collective(values):
    total, count = values.sum(), torch.tensor(len(values))
    dist.all_reduce(total)
    if len(values):
        dist.all_reduce(count)
    return total / count


def trips(values):
    if dist.get_rank() == 1:
        return values / {}[0]
    dist.all_reduce(values.sum())
    return values


def two_calls(values):
    total, count = values.sum(), torch.tensor(len(values))
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count


def two_calls_in_opposite_orders(values):
    count = torch.tensor(float(len(values)))
    total = values.sum()
    for one in (total, count) if dist.get_rank() == 1 else (count, total):
        dist.all_reduce(one)
    return (total / count).item()


def started_and_waited_for(values):
    both = torch.tensor([values.sum(), float(len(values))])
    dist.all_reduce(both, async_op=True).wait()
    return both[0] / both[1]


def counts_that_nobody_waits_for(values):
    total, count = values.sum(), torch.tensor(float(len(values)))
    dist.all_reduce(total)
    dist.all_reduce(count, async_op=True)
    return total / count


def of_objects(values):
    everything = [None] * dist.get_world_size()
    dist.all_gather_object(everything, values.tolist())
    flat = [v for part in everything for v in part]
    return sum(flat) / len(flat)


def reduce_and_broadcast(values):
    both = torch.tensor([values.double().sum(), len(values)], dtype=torch.float64)
    dist.reduce(both, 0)
    dist.broadcast(both, 0)
    return (both[0] / both[1]).reshape(1)


ALSO_WRONG = [
    ("mismatch", gathers_uneven),
    ("another_order", two_calls_in_opposite_orders),
    ("never_waited", counts_that_nobody_waits_for),
    ("value", {"[values.sum(), float(len(values))]": "[int(values.sum()), len(values)]",
               "total /": "total //"}),
]  # fmt: skip
HANG = [("left_early", skips_the_second_collective), ("raised", trips)]
ALSO_RIGHT = [two_calls, started_and_waited_for, of_objects, reduce_and_broadcast]
