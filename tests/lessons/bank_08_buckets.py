"""Answers to lesson 08's exercises on buckets and overlap to refuse, and others to accept."""

import torch
import torch.distributed as dist

from dtlib.scratch.data_parallel import unpack

# --- 8.3 assign_buckets ---------------------------------------------------------------------


def size_of(p):
    return p.numel() * p.element_size()


def greedy(params, cap, size=size_of, split_types=True):
    buckets, room = [], 0
    for p in params:
        new_type = split_types and buckets and buckets[-1][-1].dtype != p.dtype
        if not buckets or size(p) > room or new_type:
            buckets.append([])
            room = cap
        buckets[-1].append(p)
        room -= size(p)
    return buckets


def counts_elements(params, cap_bytes):
    return greedy(params[::-1], cap_bytes, lambda p: p.numel())


def order_of_registration(params, cap_bytes):
    return greedy(params, cap_bytes)


def loses_the_last(params, cap_bytes):
    buckets, bucket, total = [], [], 0
    for p in reversed(params):
        if bucket and total + size_of(p) > cap_bytes:
            buckets.append(bucket)
            bucket, total = [], 0
        bucket.append(p)
        total += size_of(p)
    return buckets


def leaves_out_the_large(params, cap_bytes):
    return greedy([p for p in params[::-1] if size_of(p) <= cap_bytes], cap_bytes)


def never_ends(params, cap_bytes):
    left, buckets, room = list(params), [[]], cap_bytes
    while left:
        if size_of(left[-1]) <= room:
            room -= size_of(left[-1])
            buckets[-1].append(left.pop())
        else:
            room = cap_bytes
            if buckets[-1]:
                buckets.append([])
    return buckets


def opens_empty(params, cap_bytes):
    return [[], *greedy(params[::-1], cap_bytes)]


def mixes_types(params, cap_bytes):
    return greedy(params[::-1], cap_bytes, split_types=False)


def looks_afterwards(params, cap_bytes):
    buckets, total = [[]], 0
    for p in reversed(params):
        if total >= cap_bytes:
            buckets.append([])
            total = 0
        buckets[-1].append(p)
        total += size_of(p)
    return buckets


def closes_early(params, cap_bytes):
    return greedy(params[::-1], cap_bytes - 1)


def adds_again(params, cap_bytes):
    buckets = greedy(params[::-1], cap_bytes)
    return [*buckets, buckets[-1]]


def hands_back_sizes(params, cap_bytes):
    return [[size_of(p) for p in bucket] for bucket in greedy(params[::-1], cap_bytes)]


# Right.
def bucket_by_bucket(params, cap_bytes):
    left, buckets = list(params), []
    while left:
        bucket = [left.pop()]
        while (
            left
            and left[-1].dtype == bucket[0].dtype
            and sum(map(size_of, bucket)) + size_of(left[-1]) <= cap_bytes
        ):
            bucket.append(left.pop())
        buckets.append(bucket)
    return buckets


def one_open_for_each_dtype(params, cap_bytes):
    buckets, opened = [], {}
    for p in params[::-1]:
        mine = opened.get(p.dtype)
        if mine is None or sum(map(size_of, mine)) + size_of(p) > cap_bytes:
            mine = opened[p.dtype] = []
            buckets.append(mine)
        mine.append(p)
    return tuple(map(tuple, buckets))


# --- 8.4 overlap ----------------------------------------------------------------------------


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
    ("assign_buckets", "elements", counts_elements),
    ("assign_buckets", "order", order_of_registration),
    ("assign_buckets", "lost", loses_the_last),
    ("assign_buckets", "too_large", leaves_out_the_large),
    ("assign_buckets", "endless", never_ends),
    ("assign_buckets", "empty", opens_empty),
    ("assign_buckets", "dtypes", mixes_types),
    ("assign_buckets", "over", looks_afterwards),
    ("assign_buckets", "early", closes_early),
    ("assign_buckets", "twice", adds_again),
    ("assign_buckets", "kind", hands_back_sizes),
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

ALSO_WRONG = [("overlap", "tensor_hook", guards_against_none)]

RIGHT = [
    ("assign_buckets", bucket_by_bucket),
    ("assign_buckets", one_open_for_each_dtype),
    ("overlap", divides_before),
    ("overlap", with_sets),
]

LADDER = (
    "assign_buckets",
    """def assign_buckets(params, cap_bytes):
    buckets, room = [], 0
    for p in reversed(params):
        if not buckets or p.numel() > room:
            buckets.append([])
            room = cap_bytes
        buckets[-1].append(p)
        room -= p.numel()
    return buckets
""",
    """def assign_buckets(params, cap_bytes):
    result = []
    held = 0
    for p in params[::-1]:
        if not result or held + p.numel() > cap_bytes:
            result.append([])
            held = 0
        result[-1].append(p)
        held += p.numel()
    return result
""",
)
