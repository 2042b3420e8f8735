"""Exercise 9.1: deal the samples of an epoch out to the ranks, as DistributedSampler does.

The answer is given its rank, so one process can ask it for the pictures of every rank (its hand).
Before each call the global generator gets another seed, which reveals an order that depends on
anything but seed and epoch.
"""

import operator

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# Samples, seed and epoch of each call that a case makes.
TWICE = ((12, 0, 0), (12, 0, 0))
EPOCHS = ((12, 0, 0), (12, 0, 1))
SEEDS = ((12, 0, 0), (12, 1, 0))
LATER = ((12, 0, 1), (12, 1, 1))
ASKED = (
    ("12 pictures, seed 0, epoch 0", TWICE),
    ("10 pictures, seed 0, epoch 0", ((10, 0, 0),)),
    ("1 picture, seed 0, epoch 0", ((1, 0, 0),)),
    ("12 pictures, epochs 0 and 1", EPOCHS),
    ("12 pictures, seed 1, epoch 0", SEEDS),
    ("12 pictures, seed 1, epoch 1", LATER),
)
SHOWN = 4  # numbers of a long list that a sentence repeats


def run(answer, asked, n):
    """The hands of all ranks, call by call."""
    with torch.random.fork_rng(devices=[]):
        return [
            [hand(answer, one, rank, n, seed=turn * n + rank) for rank in range(n)]
            for turn, one in enumerate(asked)
        ]


def hand(answer, asked, rank, n, seed):
    torch.manual_seed(seed)
    got = answer(*asked, rank, n)
    if got is None:
        raise Wrong("none")
    numbers = torch.as_tensor(got).flatten().tolist() if hasattr(got, "__array__") else got
    if not isinstance(numbers, (list, tuple, range)):
        raise Wrong("kind", rank=rank, n=n, got=a(got))
    try:
        return [operator.index(i) for i in numbers]
    except TypeError:
        odd = next(i for i in numbers if not hasattr(i, "__index__"))
        raise Wrong("kind", rank=rank, n=n, got=f"{a(got)} that holds {odd!r:.20}") from None


def a(thing):
    """The kind of a thing, with its article."""
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def judge(got, asked, n):
    """What is wrong with the hands of all ranks, if anything."""
    samples = asked[0][0]
    for hands in got:
        wrong = foreign(hands, samples) or lengths(hands, samples, n)
        if asked == TWICE and got[0] != got[1]:
            wrong = wrong or Wrong("unseeded", got=some(got[1][0]), then=some(got[0][0]))
        wrong = wrong or one_pack(hands, samples, n) or left_out(hands, samples)
        if wrong:
            return wrong
    if asked == EPOCHS:
        return other_epoch(got[0], got[1], n) or True
    if asked in (SEEDS, LATER) and got[0] == got[1]:
        return Wrong("no_seed", got=some(got[0][0]))
    return True


def foreign(hands, samples):
    odd = [(rank, i) for rank, own in enumerate(hands) for i in own if not 0 <= i < samples]
    return Wrong("foreign", rank=odd[0][0], got=odd[0][1], last=samples - 1) if odd else None


def lengths(hands, samples, n):
    sizes, each = [len(own) for own in hands], -(-samples // n)
    facts = {"samples": samples, "each": each, "lengths": ", ".join(map(str, sizes))}
    if n > 1 and each < samples == min(sizes):
        return Wrong("everything", **facts)
    if samples < n and min(sizes) < each:
        return Wrong("too_few", empty=sizes.index(min(sizes)), short=each * n - samples, **facts)
    if len(set(sizes)) > 1:
        return Wrong("uneven", **facts)
    if not sizes[0]:
        return Wrong("empty", **facts)
    if sizes[0] < each:
        missing = sorted(set(range(samples)).difference(*hands))
        words = f"picture{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        return Wrong("dropped", missing=words, **facts)
    return Wrong("too_long", got=sizes[0], **facts) if sizes[0] > each else None


def one_pack(hands, samples, n):
    """Where no padding is needed, each picture is in exactly one hand."""
    everyone = [i for own in hands for i in own]
    if n == 1 or samples % n or len(set(everyone)) == samples:
        return None
    if all(own == hands[0] for own in hands):
        return Wrong("same_hand", got=some(hands[0]))
    owners = {i: [rank for rank, own in enumerate(hands) if i in own] for i in everyone}
    shared = [(i, *ranks[:2]) for i, ranks in owners.items() if len(ranks) > 1]
    if not shared:
        return None
    twice, first, second = shared[0]
    missing = min(set(range(samples)).difference(everyone))
    return Wrong("own_packs", first=first, second=second, twice=twice, missing=missing)


def left_out(hands, samples):
    """Hands of the right length: no picture may be left out to get there."""
    missing = set(range(samples)).difference(*hands)
    rows = sum(map(len, hands))
    return Wrong("left_out", missing=min(missing), rows=rows, samples=samples) if missing else None


def other_epoch(one, two, n):
    if one == two:
        in_order = all(own == sorted(own) for own in one)
        return Wrong("unshuffled" if in_order else "no_epoch", got=some(one[0]))
    if n > 1 and [set(own) for own in one] == [set(own) for own in two]:
        return Wrong("same_pictures", got=", ".join(map(str, sorted(one[0]))))
    return None


def some(own):
    return ", ".join(map(str, own[:SHOWN])) + (", …" if len(own) > SHOWN else "")


def passed(got):
    rows = sum(map(len, got[1 - len(ASKED)][0]))  # of 10 pictures on 4 ranks
    return Passed(
        (("rows of 10 pictures on 4 ranks", rows, 12, ""),),
        "Lists of equal length, no picture left out, another order in each epoch.",
    )


EXERCISE = Answer(
    solution("my_indices", globals()),
    run=run,
    judge=judge,
    alone=True,
    cases=[
        (f"{n} rank{'s' * (n > 1)}, {words}", (asked, n))
        for n in (1, 3, 4)
        for words, asked in ASKED
    ],
    other="unrecognised",
    passed=passed,
)
