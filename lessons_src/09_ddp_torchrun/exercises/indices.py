"""Exercise 9.1: deal the samples of an epoch out to the ranks, as DistributedSampler does.

The answer is given its rank, so one process can ask it for the pictures of every rank (its hand).
Before each call the global generators get another seed, and `hash` another salt, as in a process of
its own. That reveals an order that depends on anything but seed and epoch.
"""

import contextlib
import itertools
import operator
import random

import numpy as np
import torch

from dtlib.learn.answers import Answer
from dtlib.learn.readers import shown
from dtlib.learn.salt import each_in_a_process
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# Samples, seed and epoch of each call that a case makes.
TWICE = ((12, 0, 0), (12, 0, 0))
PADDED = ((10, 0, 0), (10, 0, 0))  # on 3 ranks and on 4
EPOCHS, AGAIN = (tuple((12, seed, epoch) for epoch in range(5)) for seed in (0, 3))
SEEDS = ((12, 0, 0), (12, 1, 0))
LATER = ((12, 0, 1), (12, 1, 1))
ASKED = (
    ("12 pictures, seed 0, epoch 0", TWICE),
    ("10 pictures, seed 0, epoch 0", PADDED),
    ("1 picture, seed 0, epoch 0", ((1, 0, 0),)),
    ("12 pictures, epochs 0 to 4", EPOCHS),
    ("12 pictures, seed 1, epoch 0", SEEDS),
    ("12 pictures, seed 1, epoch 1", LATER),
    ("12 pictures, seed 3, epochs 0 to 4", AGAIN),  # `10 * seed or epoch` is right with seed 0
)
FEW = 6  # pictures of which shuffling may well leave most in place
SHOWN = 4  # numbers of a long list that a sentence repeats


class Hand(list):
    """The pictures of a rank; `left`: the state of each global generator after dealing them."""

    left: dict[str, bytes]


def run(answer, asked, n):
    """The hands of all ranks, call by call."""

    def call(k):
        turn, rank = divmod(k, n)
        return hand(answer, asked[turn], rank, n, seed=k)

    with generators_kept():
        hands = each_in_a_process(call, len(asked) * n)
    return [hands[k : k + n] for k in range(0, len(hands), n)]


@contextlib.contextmanager
def generators_kept():
    """Put all global generators back: a check changes no run."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def hand(answer, asked, rank, n, seed):
    for reseed in (torch.manual_seed, random.seed, np.random.seed):
        reseed(seed)
    got = answer(*asked, rank, n)
    left = {
        "NumPy": np.random.get_state(legacy=False)["state"]["key"].tobytes(),
        "Python": str(random.getstate()).encode(),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }
    if got is None:
        raise Wrong("none")
    numbers = torch.as_tensor(got).flatten().tolist() if hasattr(got, "__array__") else got
    if not isinstance(numbers, (list, tuple, range)):
        raise Wrong("kind", rank=rank, n=n, got=a(got))
    try:
        own = Hand(operator.index(i) for i in numbers)
    except TypeError:
        odd = next(i for i in numbers if not whole(i))
        raise Wrong("kind", rank=rank, n=n, got=f"{a(got)} that holds {shown(odd, 20)}") from None
    own.left = left
    return own


def whole(thing):
    """Whether it can be an index, as whole numbers can, also those of NumPy and torch."""
    try:
        operator.index(thing)
    except TypeError:
        return False
    return True


def a(thing):
    """The kind of a thing, with its article."""
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def judge(got, asked, n):
    """What is wrong with the hands of all ranks, if anything."""
    samples = asked[0][0]
    for hands in got:
        wrong = foreign(hands, samples) or lengths(hands, samples, n)
        if asked in (TWICE, PADDED):
            wrong = wrong or unseeded(*got)
        wrong = wrong or one_pack(hands, samples, n) or left_out(hands, samples)
        if wrong:
            return wrong
    if asked in (EPOCHS, AGAIN):
        return other_epochs(got, n, seed=asked[0][1]) or True
    if asked in (SEEDS, LATER) and got[0] == got[1]:
        return Wrong("no_seed", got=some(got[0][0]))
    return True


def unseeded(first, again):
    """The first rank that was dealt other pictures when asked again."""
    differ = [rank for rank, own in enumerate(first) if own != again[rank]]
    if not differ:
        return None
    rank = differ[0]
    return Wrong("unseeded", rank=rank, then=some(first[rank]), got=some(again[rank]))


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


def other_epochs(got, n, seed):
    """Each epoch is shuffled, and has an order that no other epoch gives away."""
    for epoch, (own, *_) in enumerate(got if n == 1 else ()):
        if (how := moved([*range(len(own))], own)) is not None:
            return Wrong("unshuffled", later=epoch, got=some(own), how=how and f", {how}")
    one, two = got[:2]
    if n > 1 and one != two and [set(own) for own in one] == [set(own) for own in two]:
        return Wrong("same_pictures", got=", ".join(map(str, sorted(one[0]))))
    for (first, one), (later, two) in itertools.combinations(enumerate(got), 2):
        facts = {"seed": seed, "first": first, "later": later, "got": some(two[0])}
        if one == two:
            return Wrong("no_epoch", **facts)
        if n == 1 and (how := moved(one[0], two[0])):
            return Wrong("turned", **facts, how=how)
    return None


def moved(one, two):
    """How an order comes from another one without shuffling, in words; None if it does not."""
    if two == one:
        return ""
    back = one[::-1]
    for how, order in (("begun at another place", one), ("read backwards", back)):
        if two in [order[k:] + order[:k] for k in range(len(order))]:
            return how
        # Two of three neighbours that stay side by side: about 1 in 100,000 shuffles of 12.
        kept = set(itertools.pairwise(order)) & set(itertools.pairwise(two))
        if 3 * len(kept) >= 2 * len(order) > 2 * FEW:
            return "with only a few pictures moved"
    return None


def some(own):
    return ", ".join(map(str, own[:SHOWN])) + (", …" if len(own) > SHOWN else "")


def passed(got):
    rows = sum(map(len, got[1 - len(ASKED)][0]))  # of 10 pictures on 4 ranks
    note = "Lists of equal length, no picture left out, another order in each epoch."
    (first,), (again,) = got[0]  # each began with generators of another seed
    seeded = [name for name, state in first.left.items() if state == again.left[name]]
    if seeded:
        note += (
            f" A remark: you seed the global generator of {' and '.join(seeded)}, so after"
            " each call all ranks draw the same dropout masks or crops again; a generator of your"
            " own leaves it alone."
        )
    return Passed((("rows of 10 pictures on 4 ranks", rows, 12, ""),), note)


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
