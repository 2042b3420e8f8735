"""Exercise 2.2: equal weights on all ranks, streams of random numbers of their own, all repeatable.

Before every call all three generators are set to something new, so that what the student's
function does not seed shows. Afterwards they are put back: a check changes no run.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dtlib.data.batches import seed_of
from dtlib.learn.checking import Passed, Wrong

Make = Callable[[], nn.Module]
STREAMS = ("Python's random", "NumPy", "torch")


class Drawn(NamedTuple):
    """The weights that came back, and the next draw of each stream."""

    weights: Tensor
    streams: tuple[float, ...]


def reference(make_model: Make, seed: int, rank: int) -> nn.Module:
    """Weights from the seed alone, and then streams from seed and rank."""
    torch.manual_seed(seed)
    model = make_model()
    own = seed_of("rank", seed, rank)
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.manual_seed(own)
    return model


def check(student: Callable[..., Any]) -> Passed:
    """Two calls alike; then other ranks; then another seed."""
    with _streams_kept():
        first, again = _drawn(student, 0, 0, 11), _drawn(student, 0, 0, 22)
        _repeats(first, again)
        others = {rank: _drawn(student, 0, rank, 33 + rank) for rank in (1, 2, 3)}
        _ranks(first, others)
        other_seed = _drawn(student, 1, 0, 77)
        _seeds(first, other_seed)
    shared = [n for n, a, b in zip(STREAMS, others[1].streams, other_seed.streams, strict=True)
              if a == b]  # fmt: skip
    note = "Same weights on four ranks, and streams of their own in Python, NumPy and torch."
    if shared:
        note += (
            " A remark: rank 1 of seed 0 draws what rank 0 of seed 1 draws, so runs with seeds in a"
            " row share numbers. Mixing both into one hash keeps them apart (seed_of in dtlib.data)"
        )
    return Passed(note=note)


def _model() -> nn.Module:
    return nn.Linear(4, 3)


def _drawn(student: Callable[..., Any], seed: int, rank: int, before: int) -> Drawn:
    random.seed(before)
    np.random.seed(before + 1)
    torch.manual_seed(before + 2)
    case = f"seed {seed}, rank {rank}"
    model = student(_model, seed, rank)
    if model is None:
        raise Wrong("none", case)
    if not isinstance(model, nn.Module):
        raise Wrong("no_model", case, got=type(model).__name__)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return Drawn(weights, (random.random(), float(np.random.rand()), torch.rand(()).item()))


def _repeats(first: Drawn, again: Drawn) -> None:
    case = "seed 0, rank 0, called twice"
    if not torch.equal(first.weights, again.weights):
        facts = {"got": float(again.weights[0]), "then": float(first.weights[0])}
        raise Wrong("weights_unseeded", case, **facts)
    for which, a, b in zip(STREAMS, first.streams, again.streams, strict=True):
        if a != b:
            raise Wrong("unseeded", case, which=which, then=a, got=b)


def _ranks(first: Drawn, others: dict[int, Drawn]) -> None:
    for rank, drawn in others.items():
        if not torch.equal(first.weights, drawn.weights):
            got, zero = float(drawn.weights[0]), float(first.weights[0])
            case = f"seed 0, ranks 0 and {rank}"
            raise Wrong("weights_by_rank", case, rank=rank, got=got, zero=zero)
    hands = {0: first, **others}
    same = [
        (which, a, b, hands[a].streams[i])
        for i, which in enumerate(STREAMS)
        for a in hands
        for b in hands
        if a < b and hands[a].streams[i] == hands[b].streams[i]
    ]
    if same:
        names = list(dict.fromkeys(which for which, *_ in same))
        _, a, b, value = same[0]
        key = "same_on_ranks" if len(names) == len(STREAMS) else "some_same_on_ranks"
        which = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
        raise Wrong(key, f"seed 0, ranks {a} and {b}", which=which, a=a, b=b, value=value)


def _seeds(first: Drawn, other: Drawn) -> None:
    case = "seeds 0 and 1, rank 0"
    if torch.equal(first.weights, other.weights):
        raise Wrong("weights_no_seed", case, got=float(first.weights[0]))
    for which, a, b in zip(STREAMS, first.streams, other.streams, strict=True):
        if a == b:
            raise Wrong("stream_no_seed", case, which=which, got=a)


@contextlib.contextmanager
def _streams_kept() -> Iterator[None]:
    python, numpy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torchs)
