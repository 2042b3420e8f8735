"""Exercise 9.1: deal the samples of an epoch out to the ranks, as DistributedSampler does.

Each rank is a process that has drawn random numbers before, as real ones have, and others than its
neighbours. So an order that comes from anywhere but seed and epoch shows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine

Hands = list[list[int]]
ASKED = ((12, 0, 0), (12, 0, 0), (12, 0, 1), (12, 1, 0), (10, 0, 0), (1, 0, 0))
SHOWN = 4  # numbers of a long list that a sentence repeats


def reference(samples: int, seed: int, epoch: int, rank: int, world_size: int) -> list[int]:
    """One pack, mixed by seed + epoch, repeated until it suffices, and dealt like cards."""
    generator = torch.Generator().manual_seed(seed + epoch)
    pack = torch.randperm(samples, generator=generator).tolist()
    each = -(-samples // world_size)
    return (pack * world_size)[: each * world_size][rank::world_size]


def check(student: Callable[..., Any]) -> Passed:
    """Ask 1, 3 and 4 ranks for their hands: twice alike, another epoch, seed and size."""
    for n in (1, 3, 4):
        cases = [_case(*asked) for asked in ASKED]
        rounds = examine(functools.partial(_on_rank, student), [(n, cases)], lambda _: None)
        _judge(rounds)
    hands = _hands(rounds[4])
    rows = sum(map(len, hands))
    return Passed(
        (("rows of 10 pictures on 4 ranks", rows, 12, ""),),
        "Equally long, nobody left out, another order in each epoch.",
    )


def _on_rank(student: Callable[..., Any], asked: torch.Tensor) -> Any:
    samples, seed, epoch = (int(v) for v in asked)
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.rand(rank + 1)
    hand = student(samples, seed, epoch, rank, n)
    if isinstance(hand, (list, tuple, range)) and all(_is_number(i) for i in hand):
        return torch.tensor([float(i) for i in hand], dtype=torch.float64)
    if hasattr(hand, "__array__") and not isinstance(hand, torch.Tensor):
        return torch.as_tensor(hand)
    return hand


def _is_number(thing: Any) -> bool:
    try:
        return float(thing) == float(thing)
    except (TypeError, ValueError):
        return False


def _case(samples: int, seed: int, epoch: int) -> Case:
    sizes = f"{samples} picture{'s' * (samples > 1)}, seed {seed}, epoch {epoch}"
    return Case(
        sizes,
        make=lambda rank, n: torch.tensor([samples, seed, epoch]),
        want=lambda rank, n: torch.zeros(-(-samples // n)),
        judge=lambda result, rank, n: True,  # what is right shows over all ranks together
    )


def _hands(round_: Round) -> Hands:
    return [[int(v) for v in seen.values] for seen in round_.ranks]


def _judge(rounds: Sequence[Round]) -> None:
    """Raise what is wrong with the hands of all ranks, the plainest case first."""
    plain, again, next_epoch, other_seed, uneven, single = rounds
    for samples, round_ in ((12, plain), (10, uneven), (1, single)):
        _foreign(round_, samples)
        _lengths(round_, samples)
        if samples == 12:
            _one_pack(plain, again)
        _complete(round_, samples)
    _epochs(plain, next_epoch)
    if _hands(plain) == _hands(other_seed):
        raise Wrong("no_seed", other_seed.label, got=_some(_hands(plain)[0]))


def _foreign(round_: Round, samples: int) -> None:
    for rank, hand in enumerate(_hands(round_)):
        odd = [i for i in hand if not 0 <= i < samples]
        if odd:
            facts = {"rank": rank, "got": odd[0], "samples": samples, "last": samples - 1}
            raise Wrong("foreign", round_.label, **facts)


def _lengths(round_: Round, samples: int) -> None:
    hands, n = _hands(round_), round_.n
    lengths, each = [len(hand) for hand in hands], -(-samples // n)
    facts = {"n": n, "samples": samples, "each": each, "lengths": ", ".join(map(str, lengths))}
    if n > 1 and each < samples == min(lengths):
        raise Wrong("everything", round_.label, **facts)
    if samples < n and min(lengths) < each:
        empty = lengths.index(min(lengths))
        raise Wrong("too_few", round_.label, empty=empty, short=each * n - samples, **facts)
    if len(set(lengths)) > 1:
        raise Wrong("uneven", round_.label, **facts)
    if lengths[0] < each:
        seen = {i for hand in hands for i in hand}
        missing = ", ".join(str(i) for i in range(samples) if i not in seen)
        raise Wrong("dropped", round_.label, missing=missing, **facts)
    if lengths[0] > each:
        raise Wrong("too_long", round_.label, got=lengths[0], **facts)


def _one_pack(plain: Round, again: Round) -> None:
    """Twelve pictures on 1, 3 or 4 ranks need no padding: each is in one hand."""
    hands, n = _hands(plain), plain.n
    if hands != _hands(again):
        got, then = _some(_hands(again)[0]), _some(hands[0])
        raise Wrong("unseeded", plain.label, got=got, then=then)
    if n == 1 or len({i for hand in hands for i in hand}) == 12:
        return
    if all(hand == hands[0] for hand in hands):
        raise Wrong("same_hand", plain.label, got=_some(hands[0]), n=n)
    everyone = [i for hand in hands for i in hand]
    twice = next(i for i in everyone if everyone.count(i) > 1)
    holders = [rank for rank, hand in enumerate(hands) for i in hand if i == twice]
    missing = next(i for i in range(12) if i not in everyone)
    facts = {"first": holders[0], "second": holders[1], "twice": twice, "missing": missing}
    raise Wrong("own_packs", plain.label, **facts)


def _complete(round_: Round, samples: int) -> None:
    """Equally long hands of the right size: nobody may be left out for it."""
    held = {i for hand in _hands(round_) for i in hand}
    missing = [i for i in range(samples) if i not in held]
    if missing:
        rows = sum(map(len, _hands(round_)))
        facts = {"missing": missing[0], "rows": rows, "samples": samples}
        raise Wrong("left_out", round_.label, **facts)


def _epochs(first: Round, second: Round) -> None:
    one, two = _hands(first), _hands(second)
    case = f"{second.n} rank{'s' * (second.n > 1)}, 12 pictures, epochs 0 and 1"
    if one == two:
        in_order = all(hand == sorted(hand) for hand in one)
        raise Wrong("unshuffled" if in_order else "no_epoch", case, got=_some(one[0]))
    if second.n > 1 and [set(hand) for hand in one] == [set(hand) for hand in two]:
        raise Wrong("same_pictures", case, got=", ".join(map(str, sorted(one[0]))))


def _some(hand: Sequence[int]) -> str:
    return ", ".join(map(str, hand[:SHOWN])) + (", …" if len(hand) > SHOWN else "")
