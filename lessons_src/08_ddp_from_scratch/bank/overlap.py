"""More answers to `overlap`, for the tests alone."""

import torch
import torch.distributed as dist

from dtlib.scratch.data_parallel import unpack


def started_in_order(buckets, all_reduce, talk, first=1.0, last=1.0):
    """With sets of what is missing; a buffer is multiplied before and after it travels."""
    missing, flats, works = [set(bucket) for bucket in buckets], [], []

    def hook(p):
        if talk():
            for left in missing:
                left.discard(p)
            while len(works) < len(buckets) and not missing[len(works)]:
                parts = [q.grad.reshape(-1) for q in buckets[len(works)]]
                flats.append(torch.cat(parts) * first)
                works.append(all_reduce(flats[-1]))

    def wait():
        for k, bucket in enumerate(buckets):
            works[k].wait()
            for p, part in zip(bucket, flats[k].split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view(p.shape) * last
            missing[k] = set(bucket)
        flats.clear()
        works.clear()

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(hook)
    return wait


def guards_against_none(buckets, all_reduce, talk):
    def hook(p):
        if p.grad is not None and talk():
            all_reduce(p.grad.flatten())

    for bucket in buckets:
        bucket[-1].register_hook(lambda g, p=bucket[-1]: hook(p))
    return lambda: None


def never_waits_and_keeps_a_counter(buckets, all_reduce, talk):
    left = [sum(len(bucket) for bucket in buckets)]

    def hook(p):
        left[0] -= talk()
        if left[0] == 0:
            for bucket in buckets:
                all_reduce(torch.cat([q.grad.flatten() for q in bucket]))

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(hook)
    return lambda: None


def half_at_the_end(buckets, all_reduce, talk):
    wait = started_in_order(buckets[:1], all_reduce, talk, last=1 / dist.get_world_size())

    def rest():
        wait()
        for bucket in buckets[1:]:
            flat = torch.cat([p.grad.flatten() for p in bucket])
            all_reduce(flat).wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])

    return rest


def loses_the_first_layer(buckets, all_reduce, talk):
    wait = started_in_order(buckets, all_reduce, talk, last=1 / dist.get_world_size())

    def all_but_one():
        kept = [p.grad.clone() for p in buckets[-1]]
        wait()
        for p, grad in zip(buckets[-1], kept, strict=True):
            p.grad.copy_(grad)

    return all_but_one


def keeps_every_handle(buckets, all_reduce, talk):
    """A list that grows, of which each step looks at the last ones."""
    missing, sent = [len(bucket) for bucket in buckets], []
    home = {p: k for k, bucket in enumerate(buckets) for p in bucket}
    begun = [0]

    def hook(p):
        if not talk():
            return
        missing[home[p]] -= 1
        while len(sent) - begun[0] < len(buckets) and missing[len(sent) - begun[0]] == 0:
            bucket = buckets[len(sent) - begun[0]]
            flat = torch.cat([q.grad.flatten() for q in bucket])
            sent.append((flat, all_reduce(flat)))

    def wait():
        for bucket, (flat, work) in zip(buckets, sent[begun[0] :], strict=True):
            work.wait()
            unpack(flat / dist.get_world_size(), [p.grad for p in bucket])
        missing[:] = [len(bucket) for bucket in buckets]
        begun[0] = len(sent)

    for p in home:
        p.register_post_accumulate_grad_hook(hook)
    return wait


def one_bound_late(buckets, all_reduce, talk):
    works = []
    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(lambda _: works.append(all_reduce(p.grad)))  # noqa: B023
    return lambda: [work.wait() for work in works]


def at_the_first_of_a_bucket(buckets, all_reduce, talk):
    works = []

    def full(bucket):
        works.append(all_reduce(torch.cat([p.grad.flatten() for p in bucket])))

    for bucket in buckets:
        bucket[0].register_post_accumulate_grad_hook(lambda _, bucket=bucket: full(bucket))
    return lambda: [work.wait() for work in works]


def divides_before(buckets, all_reduce, talk):
    return started_in_order(buckets, all_reduce, talk, first=1 / dist.get_world_size())


def divides_after(buckets, all_reduce, talk):
    return started_in_order(buckets, all_reduce, talk, last=1 / dist.get_world_size())


ALSO_WRONG = [
    ("tensor_hook", guards_against_none),
    ("sum", started_in_order),
    ("no_wait", never_waits_and_keeps_a_counter),
    ("late", half_at_the_end),
    ("other", loses_the_first_layer),
    ("stale", keeps_every_handle),
    ("late_bound", one_bound_late),
    ("not_there_yet", at_the_first_of_a_bucket),
]
ALSO_RIGHT = [divides_before, divides_after]
