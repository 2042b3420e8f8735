"""More answers to `tokens_per_second`, for the tests alone."""

from statistics import median

from ..exercises.tokens import tokens_per_second


def sorts_in_place(steps, ranks, warmup):
    steps.sort(reverse=True)
    steps.pop()
    return 4.0, 4.0 / ranks


def a_tenth_off(steps, ranks, warmup):
    total = 1.1 * tokens_per_second(steps, ranks, warmup)[0]
    return total, total / ranks


def by_generator(steps, ranks, warmup):
    found = sorted(
        sum(1 for window in labels for label in window if label >= 0) / seconds
        for seconds, labels in steps[warmup:]
    )
    half = len(found) // 2
    total = (found[half] + found[~half]) / 2
    return [total, total / ranks]


def by_tensor(steps, ranks, warmup):
    import torch

    timed = steps[warmup:]
    found = [(torch.tensor(labels) != -100).sum() / seconds for seconds, labels in timed]
    total = torch.quantile(torch.stack(found), 0.5)
    return total, total / ranks


def two_medians(steps, ranks, warmup):
    timed = steps[warmup:]
    counts = [sum(label != -100 for one in labels for label in one) for _, labels in timed]
    total = median(counts) / median(seconds for seconds, _ in timed)
    return total, total / ranks


ALSO_WRONG = [
    ("two", lambda steps, ranks, warmup: tokens_per_second(steps, ranks, warmup)[0]),
    ("mutates", sorts_in_place),
    ("other", a_tenth_off),
    ("medians_apart", two_medians),
]
ALSO_RIGHT = [by_generator, by_tensor]
