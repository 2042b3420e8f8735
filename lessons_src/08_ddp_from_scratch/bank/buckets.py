"""More answers to `assign_buckets`, for the tests alone."""


def size_of(p):
    return p.numel() * p.element_size()


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


ALSO_WRONG = [
    ("elements", {" * p.element_size()": ""}),
    ("order", {"reversed(params)": "params"}),
    ("lost", {"return buckets": "return buckets[:-1]"}),
    ("too_large", {"reversed(params)": "[p for p in params[::-1] if p.nbytes <= cap_bytes]"}),
    ("empty", {"buckets, room, dtype = []": "buckets, room, dtype = [[]]"}),
    ("dtypes", {" or p.dtype != dtype": ""}),
    ("over", {"size > room": "room <= 0"}),
    ("early", {"size > room": "size >= room"}),
    ("twice", {"return buckets": "return [*buckets, buckets[-1]]"}),
    ("kind", {"return buckets": "return [[p.nbytes for p in bucket] for bucket in buckets]"}),
    # a parameter that fits into no bucket is waited for
    ("endless", {"if not buckets or size > room": "while not buckets or size > room",
                 "buckets.append([])": "buckets = buckets if [] in buckets else [*buckets, []]"}),
    ("kind", {"return buckets": "return params[::-1]"}),
    ("four_bytes", {"p.element_size()": "4"}),
    ("changed", {"buckets, room": "params.reverse()\n    buckets, room",
                 "reversed(params)": "params"}),
    ("changed", {"reversed(params)": "(params.pop() for _ in params[:])"}),
]  # fmt: skip
ALSO_RIGHT = [bucket_by_bucket, one_open_for_each_dtype]

LADDER = (
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
