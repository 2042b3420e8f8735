"""Answers to lesson 08's exercises on buckets to refuse, and others to accept."""


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
]

ALSO_WRONG: list = []

RIGHT = [
    ("assign_buckets", bucket_by_bucket),
    ("assign_buckets", one_open_for_each_dtype),
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
