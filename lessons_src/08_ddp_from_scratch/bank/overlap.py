"""Answers to lesson 08's exercise on overlap that its check must refuse, and others to accept."""

import torch
import torch.distributed as dist

from dtlib.scratch.data_parallel import unpack


def built(buckets, all_reduce, talk, *, divide="after", inside=False, waits=True, reset=True,
          ordered=True, silent=True, early=False):  # fmt: skip
    """The course's answer, each part of which can be spoiled."""
    n = dist.get_world_size()
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    missing, sent = [len(bucket) for bucket in buckets], {}

    def start(k):
        flat = torch.cat([p.grad.flatten() for p in buckets[k]])
        flat /= n if divide == "before" else 1
        work = all_reduce(flat)
        sent[k] = flat, work
        if divide == "at once":
            flat /= n
        if inside:
            work.wait()

    def hook(p):
        if silent and not talk():
            return
        missing[home[p]] -= 1
        if not silent and not early and missing[home[p]] == 0:
            start(home[p])
            missing[home[p]] = len(buckets[home[p]])
        elif not ordered and missing[home[p]] == 0:
            start(home[p])
        elif ordered:
            while len(sent) < len(buckets) and missing[len(sent)] == 0:
                start(len(sent))

    def wait():
        for k, (flat, work) in sent.items():
            if waits:
                work.wait()
            flat /= n if divide in ("after", "twice") else 1
            flat /= n if divide == "twice" else 1
            unpack(flat, [p.grad for p in buckets[k]])
        sent.clear()
        if reset:
            missing[:] = [len(bucket) for bucket in buckets]

    for p in home:
        p.register_post_accumulate_grad_hook(hook)
    return wait


def too_early_a_hook(buckets, all_reduce, talk):
    sent = []

    def hook(bucket):
        if talk():
            flat = torch.cat([p.grad.flatten() for p in bucket])
            sent.append((bucket, flat, all_reduce(flat)))

    for bucket in buckets:
        bucket[-1].register_hook(lambda g, bucket=bucket: hook(bucket))
    return lambda: None


def guards_against_none(buckets, all_reduce, talk):
    def hook(p):
        if p.grad is not None and talk():
            all_reduce(p.grad.flatten())

    for bucket in buckets:
        bucket[-1].register_hook(lambda g, p=bucket[-1]: hook(p))
    return lambda: None


def newest_gradient(buckets, all_reduce, talk):
    """Fills its buffer in tensor hooks, which are given the newest gradient only."""
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    parts, sent = {}, []

    def hook(p, g):
        if not talk():
            return
        parts[p] = g.detach().flatten()
        while len(sent) < len(buckets) and all(q in parts for q in buckets[len(sent)]):
            flat = torch.cat([parts[q] for q in buckets[len(sent)]])
            sent.append((flat, all_reduce(flat)))

    def wait():
        for bucket, (flat, work) in zip(buckets, sent, strict=True):
            work.wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])
        parts.clear()
        sent.clear()

    for p in home:
        p.register_hook(lambda g, p=p: hook(p, g))
    return wait


def waits_in_the_hook(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, inside=True)


def never_waits(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, waits=False)


def divides_at_once(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, divide="at once")


def counters_stay(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, reset=False)


def talks_every_time(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, silent=False)


def talks_too_soon(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, silent=False, early=True)


def whichever_is_full(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, ordered=False)


def never_divides(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, divide="never")


def divides_twice(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, divide="twice")


def no_hooks(buckets, all_reduce, talk):
    return lambda: None


def at_the_end(buckets, all_reduce, talk):
    def wait():
        flats = [torch.cat([p.grad.flatten() for p in bucket]) for bucket in buckets]
        for bucket, flat, work in zip(buckets, flats, map(all_reduce, flats), strict=True):
            work.wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])

    return wait


def each_by_itself(buckets, all_reduce, talk):
    return built([[p] for bucket in buckets for p in bucket], all_reduce, talk)


def hands_back_nothing(buckets, all_reduce, talk):
    built(buckets, all_reduce, talk)


def averages_rank_0s_layer(buckets, all_reduce, talk):
    wait = built(buckets, all_reduce, talk)

    def first_bucket_alone():
        kept = [p.grad.clone() for p in buckets[-1]]
        wait()
        for p, grad in zip(buckets[-1], kept, strict=True):
            p.grad.copy_(grad)

    return first_bucket_alone


def keeps_the_first_sums(buckets, all_reduce, talk):
    wait, kept = built(buckets, all_reduce, talk), []

    def again():
        wait()
        if kept:
            buckets[0][0].grad.add_(kept[0])
        kept.append(buckets[0][0].grad.clone())

    return again


# Right.
def divides_before(buckets, all_reduce, talk):
    return built(buckets, all_reduce, talk, divide="before")


def with_sets(buckets, all_reduce, talk):
    missing, flats, works = [set(bucket) for bucket in buckets], [], []

    def hook(p):
        if talk():
            for left in missing:
                left.discard(p)
            while len(works) < len(buckets) and not missing[len(works)]:
                flats.append(torch.cat([q.grad.reshape(-1) for q in buckets[len(works)]]))
                works.append(all_reduce(flats[-1]))

    def wait():
        for k, bucket in enumerate(buckets):
            works[k].wait()
            for p, part in zip(bucket, flats[k].split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view(p.shape) / dist.get_world_size()
            missing[k] = set(bucket)
        flats.clear()
        works.clear()

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(hook)
    return wait


WRONG = [
    ("overlap", "tensor_hook", too_early_a_hook),
    ("overlap", "newest", newest_gradient),
    ("overlap", "waits_inside", waits_in_the_hook),
    ("overlap", "no_wait", never_waits),
    ("overlap", "divides_early", divides_at_once),
    ("overlap", "not_reset", counters_stay),
    ("overlap", "every_micro_batch", talks_every_time),
    ("overlap", "too_soon", talks_too_soon),
    ("overlap", "swapped", whichever_is_full),
    ("overlap", "sum", never_divides),
    ("overlap", "twice", divides_twice),
    ("overlap", "silent", no_hooks),
    ("overlap", "late", at_the_end),
    ("overlap", "one_by_one", each_by_itself),
    ("overlap", "returns", hands_back_nothing),
    ("overlap", "other", averages_rank_0s_layer),
    ("overlap", "drift", keeps_the_first_sums),
]

ALSO_WRONG = [
    ("overlap", "tensor_hook", guards_against_none),
]

RIGHT = [
    ("overlap", divides_before),
    ("overlap", with_sets),
]
