"""Exercise 8.3: parameters into buckets. Any right cut will do, so the outcome itself is judged."""

from itertools import chain, pairwise

import torch
from torch import nn

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# What the parameters are called and how many numbers they hold, in the order of registration.
SMALL = {"0.weight": 6, "0.bias": 2}
CHAIN = {"0.weight": 10, "0.bias": 5, "1.weight": 5, "2.weight": 5, "2.bias": 5}
LARGE = {"0.weight": 5, "emb.weight": 30, "2.weight": 5}
LARGE_LAST = {"0.weight": 5, "2.weight": 5, "emb.weight": 30}
TYPES = {"0.weight": 4, "norm.weight": 4, "2.weight": 4}
DOUBLE = {"0.weight": 5, "0.bias": 5}

assign_buckets = solution("assign_buckets", globals())


def run(answer, sizes, cap, dtypes=None):
    """The buckets of an answer, as places in the list of parameters; `dtypes` other than fp32."""
    params = [
        nn.Parameter(torch.zeros(n, dtype=(dtypes or {}).get(name, torch.float32)))
        for name, n in sizes.items()
    ]
    place = {id(p): i for i, p in enumerate(params)}
    given = list(params)
    buckets = answer(given, cap)
    if not isinstance(buckets, (list, tuple)):
        raise Wrong("kind", got=f"a {type(buckets).__name__}")
    for bucket in buckets:
        if not isinstance(bucket, (list, tuple)):
            raise Wrong("kind", got=f"a list with a {type(bucket).__name__} in it")
        if any(id(p) not in place for p in bucket):
            raise Wrong("kind", got="a list of lists that hold other things than the parameters")
    if list(map(id, given)) != list(map(id, params)):
        raise Wrong(
            "changed",
            what=f"{len(given)} of {len(params)} parameters are left in it"
            if len(given) != len(params)
            else "its parameters are in another order",
        )
    return [[place[id(p)] for p in bucket] for bucket in buckets]


def judge(got, sizes, cap, dtypes):
    """Whether it is a right cut, or the first thing that is wrong with it."""
    names = list(sizes)
    types = [(dtypes or {}).get(name, torch.float32) for name in names]
    size = [n * kind.itemsize for n, kind in zip(sizes.values(), types, strict=True)]
    return next(
        chain(
            in_all(got, names, size, cap),
            in_each(got, size, cap, types),
            between(got, names, size, cap, types),
        ),
        True,
    )


def in_all(buckets, names, size, cap):
    """Whether every parameter is there once."""
    held = [i for bucket in buckets for i in bucket]
    missing = [i for i in range(len(names)) if i not in held]
    if [] in buckets:
        yield Wrong("empty", bucket=buckets.index([]), count=len(buckets))
    if missing:
        what = ", ".join(names[i] for i in missing)
        if all(size[i] > cap for i in missing):
            yield Wrong("too_large", name=what, size=size[missing[0]])
        yield Wrong("lost", what=what, those="are" if len(missing) > 1 else "is")
    yield from (Wrong("twice", name=names[i]) for i in held if held.count(i) > 1)


def in_each(buckets, size, cap, types):
    """Whether each bucket is small enough, and of one dtype."""
    for b, bucket in enumerate(buckets):
        total = sum(size[i] for i in bucket)
        if total > cap and len(bucket) > 1:
            last = size[bucket[-1]]
            numbers = sum(size[i] // types[i].itemsize for i in bucket)
            key = "over"
            if numbers <= cap <= total - last:  # only a count of numbers allows that
                key = "elements"
            elif 4 * numbers <= cap:
                key = "four_bytes"
            facts = {"counted": 4 * numbers, "before": total - last}
            yield Wrong(key, bucket=b, total=total, last=last, **facts)
        if len({types[i] for i in bucket}) > 1:
            yield Wrong("dtypes", bucket=b)


def between(buckets, names, size, cap, types):
    """Whether one was closed that had room, or holds what should come later."""
    for b, (one, later) in enumerate(pairwise(buckets)):
        if types[one[0]] != types[later[0]]:
            continue
        if min(one) < max(later):
            yield Wrong("order", bucket=b, name=names[min(one)], later=names[max(later)])
        total, joins = sum(size[i] for i in one), size[max(later)]
        if total + joins <= cap:
            yield Wrong("early", bucket=b, total=total, joins=joins)


def endless(error, sizes, cap):
    """Still at work, with a parameter that is larger than the cap."""
    name = max(sizes, key=sizes.get)
    return error == "loops" and 4 * sizes[name] > cap and {"name": name, "size": 4 * sizes[name]}


EXERCISE = Answer(
    assign_buckets,
    run=run,
    judge=judge,
    alone=True,
    cases=[
        ("one layer of 24 and 8 bytes, cap 100", (SMALL, 100)),
        ("40, 20, 20, 20 and 20 bytes, cap 40", (CHAIN, 40)),
        ("40, 20, 20, 20 and 20 bytes, cap 50", (CHAIN, 50)),
        ("20, 120 and 20 bytes, cap 40", (LARGE, 40)),
        ("the last of 20, 20 and 120 bytes, cap 40", (LARGE_LAST, 40)),
        ("16 bytes, 8 in bf16, 16 bytes, cap 100", (TYPES, 100, {"norm.weight": torch.bfloat16})),
        ("40 and 40 bytes in fp64, cap 60", (DOUBLE, 60, dict.fromkeys(DOUBLE, torch.float64))),
    ],
    mistakes=[
        Mistake("endless", when=endless),
    ],
    other="unrecognised",
    passed=lambda got: Passed(
        (("buckets for 40, 20, 20, 20 and 20 bytes, cap 40", len(got[1]), 3, ""),)
    ),
)
