"""Exercise 2.2: equal weights on all ranks, streams of random numbers of their own, all repeatable.

Before every call all three generators are set to something new, and `hash` gets another salt, as in
a process of its own, so that what the student's function does not seed shows. Afterwards they are
put back: a check changes no run.
"""

import contextlib
import itertools
import random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dtlib.data.batches import seed_of  # noqa: F401 (the solution uses it)
from dtlib.learn.answers import Answer
from dtlib.learn.salt import each_in_a_process
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

MANY = 128  # ranks; of 1024 seeds two are alike with a probability of 0.9996
SEEDS = 3  # the case that tells two seeds apart
AHEAD = 256  # draws that are compared: streams that overlap there are one stream
STREAMS = ("Python's random", "NumPy", "torch")


class Drawn(NamedTuple):
    """The weights that came back for a seed, and the next draws of each stream."""

    seed: int
    weights: Tensor
    streams: tuple[float, ...]
    words: tuple[list, ...]  # what each stream gives next, by 32 bits of its generator


class Made(nn.Linear):
    """The model that `make_model` makes, so that no other can be taken for it."""

    def __init__(self):
        super().__init__(4, 3)


@contextlib.contextmanager
def _streams_kept():
    python, numpy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torchs)


def run(answer, calls, look):
    """What each call of (seed, rank) leaves."""
    with _streams_kept():
        return each_in_a_process(lambda k: _drawn(answer, calls[k], 11 * k + 11), len(calls))


def _drawn(answer, call, before):
    seed, rank = call
    random.seed(before)
    np.random.seed(before + 1)
    torch.manual_seed(before + 2)
    case = f"seed {seed}, rank {rank}"
    model = answer(Made, seed, rank)
    if model is None:
        raise Wrong("none", case)
    if not isinstance(model, Made):
        key = "other_model" if isinstance(model, nn.Module) else "no_model"
        raise Wrong(key, case, got=type(model).__name__)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return Drawn(
        seed,
        weights,
        (random.random(), float(np.random.rand()), torch.rand((), dtype=torch.float64).item()),
        (
            [random.getrandbits(32) for _ in range(AHEAD)],
            np.random.randint(2**32, size=AHEAD, dtype=np.uint32).tolist(),
            torch.rand(AHEAD).tolist(),
        ),
    )


def repeats(drawn):
    """All alike."""
    first, again = drawn
    if not torch.equal(first.weights, again.weights):
        got, then = float(again.weights[0]), float(first.weights[0])
        return Wrong("weights_unseeded", got=got, then=then)
    for which, a, b in zip(STREAMS, first.streams, again.streams, strict=True):
        if a != b:
            return Wrong("unseeded", which=which, then=a, got=b)
    return True


def ranks(got):
    """The same weights, and no stream in common."""
    for rank, drawn in enumerate(got):
        if not torch.equal(got[0].weights, drawn.weights):
            mine, zero = float(drawn.weights[0]), float(got[0].weights[0])
            case = f"seed {got[0].seed}, ranks 0 and {rank}"
            return Wrong("weights_by_rank", case, rank=rank, got=mine, zero=zero)
    same = [
        (which, a, b, got[a].streams[i])
        for i, which in enumerate(STREAMS)
        for a, b in itertools.combinations(range(len(got)), 2)
        if got[a].streams[i] == got[b].streams[i]
    ]
    if not same:
        return _apart(got)
    names = list(dict.fromkeys(which for which, *_ in same))
    _, a, b, value = same[0]
    key = "same_on_ranks" if len(names) == len(STREAMS) else "some_same_on_ranks"
    key = "few_seeds" if len(got) == MANY else key
    which = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
    case = f"seed {got[0].seed}, ranks {a} and {b}"
    return Wrong(key, case, which=which, a=a, b=b, value=value, n=len(got))


def _apart(got):
    """No stream is another rank's, begun at a later place: three draws in a row are 72 bits."""
    for i, which in enumerate(STREAMS):
        owner: dict[tuple[Any, ...], int] = {}
        for rank, drawn in enumerate(got):
            words = drawn.words[i]
            for three in zip(words, words[1:], words[2:], strict=False):
                other = owner.setdefault(three, rank)
                if other != rank:
                    case = f"seed {got[0].seed}, ranks {other} and {rank}"
                    return Wrong("shifted", case, which=which, a=other, b=rank)
    return True


def seeds(got):
    """Other weights, and other streams."""
    first, other = got
    if torch.equal(first.weights, other.weights):
        return Wrong("weights_no_seed", got=float(first.weights[0]))
    for which, a, b in zip(STREAMS, first.streams, other.streams, strict=True):
        if a == b:
            return Wrong("stream_no_seed", which=which, got=a)
    return True


def passed(got):
    """With a remark, where a rank of seed 0 draws what rank 0 of seed 1 draws."""
    note = (
        f"Same weights on {MANY} ranks. In Python, NumPy and torch's stream for the CPU, no two"
        f" ranks' streams overlap in the next {AHEAD} draws."
    )
    other = got[SEEDS][1].streams
    shared = [
        rank
        for rank, drawn in enumerate(got[-1])
        if any(a == b for a, b in zip(drawn.streams, other, strict=True))
    ]
    if shared:
        note += (
            f" A remark: rank {shared[0]} of seed 0 draws what rank 0 of seed 1 draws, so runs with"
            " seeds in a row share numbers. Mixing both into one hash keeps them apart (seed_of in"
            " dtlib.data.batches)."
        )
    return Passed(note=note)


EXERCISE = Answer(
    solution("start_run", globals()),
    run=run,
    judge=lambda got, look: look(got),
    alone=True,
    cases=[
        ("seed 0, rank 0, called twice", ([(0, 0), (0, 0)], repeats)),
        ("seed 0, ranks 0 to 3", ([(0, rank) for rank in range(4)], ranks)),
        # `seed or rank`, `seed * rank` and max(seed, rank) are right with one seed and not another
        ("seed 5, ranks 0 to 15", ([(5, rank) for rank in range(16)], ranks)),
        ("seeds 0 and 1, rank 0", ([(0, 0), (1, 0)], seeds)),
        (f"seed 0, {MANY} ranks", ([(0, rank) for rank in range(MANY)], ranks)),
    ],
    other="unrecognised",
    passed=passed,
)
