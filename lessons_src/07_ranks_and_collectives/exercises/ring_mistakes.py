"""What the mistakes of exercise 7.3 look like: painted sums, and the wire log of each rank.

Two of them end in the same tensors (1 1 10 10 100 100); only their messages differ.
"""

from __future__ import annotations

import torch

from dtlib.learn.cases import Round, Seen
from dtlib.learn.checking import Wrong
from dtlib.learn.diagnosis import digits, number


def owned(size: int, n: int, chunk: int) -> list[torch.Tensor]:
    """Masks of one of `n` chunks: cut evenly, and cut by ⌈size/n⌉ with a short tail."""
    masks = []
    even = [size // n + (k < size % n) for k in range(n)]
    per = -(-size // n)
    tail = [max(0, min(per, size - k * per)) for k in range(n)]
    for lengths in (even, tail):
        mask = torch.zeros(size, dtype=torch.bool)
        start = sum(lengths[:chunk])
        mask[start : start + lengths[chunk]] = True
        masks.append(mask)
    return masks


def explain_whole(round_: Round) -> Wrong | None:
    """Recognise a mistake in the whole ring."""
    return _common(round_) or _mean(round_) or _second_half(round_)


def explain_half(round_: Round) -> Wrong | None:
    """Recognise a mistake in the first half alone."""
    found = _common(round_)
    if found or round_.failures or round_.n == 1:
        return found
    finished = [_finished(seen, round_.n) for seen in round_.ranks]
    if sorted(finished) == [[k] for k in range(round_.n)]:
        return Wrong("other_owner", round_.label, chunk=finished[0][0])
    if all(len(chunks) == round_.n for chunks in finished):
        return Wrong("both_halves", round_.label)
    return None


def _common(round_: Round) -> Wrong | None:
    n = round_.n
    if n == 1 and round_.ranks[0].sent:
        return Wrong("alone", round_.label)
    if round_.failures:
        return _raised(round_)
    if len(set(round_.ranks[0].want)) > 1:
        return _mixed(round_)
    if n == 1 or not all(seen.values for seen in round_.ranks):
        return None
    if not any(seen.sent for seen in round_.ranks):
        return Wrong("silent", round_.label, n=n)
    size = len(round_.ranks[0].values)
    if size > 1 and all(m.elements == size for seen in round_.ranks for m in seen.sent):
        return _running_total(round_)
    return _new_object(round_) or _first_half(round_)


def _raised(round_: Round) -> Wrong | None:
    n = round_.n
    for rank, failure in round_.failures:
        if failure.error == "Forbidden":
            return Wrong("collective", round_.label, rank=rank, message=failure.message)
        if failure.error == "IndexError":
            size = len(round_.ranks[rank].want)
            per = -(-size // n)
            pieces = -(-size // per)
            if pieces < n:
                return Wrong("chunk", round_.label, n=n, size=size, pieces=pieces)
    return None


def _mixed(round_: Round) -> Wrong | None:
    """Sums that were right for equal numbers, and hold another place's numbers: digits differ."""
    for seen in round_.ranks:
        for place, value in enumerate(seen.values):
            counts = digits(value, round_.n)
            if not counts or 0 in counts or len(set(counts)) == 1:
                continue  # not summed yet, or as it should be
            rank = next(r for r, c in enumerate(counts) if c != place + 1)
            facts = {"got": number(value), "want": number(seen.want[place]), "place": place}
            return Wrong("mixed", round_.label, rank=rank, source=counts[rank] - 1, **facts)
    return None


def _running_total(round_: Round) -> Wrong | None:
    for seen in round_.ranks:
        counts = digits(seen.values[0], round_.n)
        twice = next((r for r, c in enumerate(counts or []) if c > 1), None)
        if twice is not None:
            got = number(seen.values[0])
            return Wrong("running_total", round_.label, rank=seen.rank, got=got, twice=twice)
    return None


def _new_object(round_: Round) -> Wrong | None:
    """The messages carry growing sums, and x holds what it held at the start."""
    untouched = all(set(s.values) == {10.0**s.rank} for s in round_.ranks)
    if untouched and all(_grows(seen, round_.n) for seen in round_.ranks):
        return Wrong("new_object", round_.label)
    return None


def _first_half(round_: Round) -> Wrong | None:
    """Step 2 tells: a sum of two ranks should travel, from another chunk than in step 1."""
    n = round_.n
    if n < 3 or any(len(seen.sent) < 2 for seen in round_.ranks):
        return None
    second = {s.rank: _value(s, 1) for s in round_.ranks}
    lone = [r for r, v in second.items() if v in {10.0**k for k in range(n)} - {10.0**r}]
    if len(lone) == n:
        rank = 1
        return Wrong("overwrote", round_.label, rank=rank, got=number(second[rank]))
    if all(s.sent[0].address == s.sent[1].address for s in round_.ranks):
        return Wrong("same_chunk", round_.label)
    if all(_value(s, 1) == 10.0**s.rank for s in round_.ranks):
        return _missing(round_)
    return None


def _missing(round_: Round) -> Wrong | None:
    """Name a chunk and a rank whose numbers never got into it."""
    n = round_.n
    for chunk in range(n):
        counts = [digits(v, n) for seen in round_.ranks for v in _chunk(seen, n, chunk)]
        for rank in range(n):
            if counts and all(c and c[rank] == 0 for c in counts):
                got = number(_chunk(round_.ranks[0], n, chunk)[0])
                return Wrong("wrong_chunk", round_.label, chunk=chunk, got=got, rank=rank)
    got = number(_chunk(round_.ranks[0], n, 0)[0])
    return Wrong("wrong_chunk", round_.label, chunk=0, got=got, rank=_absent(got, n))


def _absent(got: str, n: int) -> int:
    counts = digits(float(got), n) or [0]
    return counts.index(0) if 0 in counts else 0


def _second_half(round_: Round) -> Wrong | None:
    n = round_.n
    if round_.failures or n == 1 or not all(_grows(seen, n) for seen in round_.ranks):
        return None
    finished = [_finished(seen, n) for seen in round_.ranks]
    if all(len(seen.sent) == n - 1 for seen in round_.ranks):
        if all(len(chunks) == 1 for chunks in finished):
            done = ", ".join(f"rank {r} chunk {chunks[0]}" for r, chunks in enumerate(finished))
            done = done.replace("rank 0", "rank 0 has finished", 1)
            return Wrong("half", round_.label, done=done, n=n)
        return None
    if any(len(seen.sent) != 2 * (n - 1) for seen in round_.ranks):
        return None
    everyone = float(sum(10**r for r in range(n)))
    start = [_value(seen, n - 1) for seen in round_.ranks]
    if start and all(v != everyone for v in start):
        return Wrong("unfinished", round_.label)
    return _added(round_)


def _mean(round_: Round) -> Wrong | None:
    n, first = round_.n, round_.ranks[0]
    wants = [v / n for v in first.want]
    if n > 1 and not round_.failures and all(seen.values == wants for seen in round_.ranks):
        return Wrong("mean", round_.label, got=number(wants[0]), want=number(first.want[0]), n=n)
    return None


def _added(round_: Round) -> Wrong | None:
    n = round_.n
    for seen in round_.ranks:
        for chunk in range(n):
            for value in _chunk(seen, n, chunk):
                counts = digits(value, n)
                if counts and max(counts) > 1:
                    twice = counts.index(max(counts))
                    return Wrong(
                        "added",
                        round_.label,
                        got=number(value),
                        twice=twice,
                        times=max(counts),
                        rank=seen.rank,
                        chunk=chunk,
                    )
    return None


def _grows(seen: Seen, n: int) -> bool:
    """Whether message k of the first half carries exactly k ranks, each once."""
    if len(seen.sent) < n - 1:
        return False
    for k in range(n - 1):
        value = _value(seen, k)
        counts = digits(value, n) if value is not None else None
        if value is not None and (not counts or sum(counts) != k + 1 or max(counts) > 1):
            return False
    return True


def _value(seen: Seen, k: int) -> float | None:
    """The number that message k carried; None for an empty one."""
    return seen.sent[k].values[0] if seen.sent[k].values else None


def _chunk(seen: Seen, n: int, chunk: int) -> list[float]:
    mask = owned(len(seen.values), n, chunk)[0]
    return [v for v, own in zip(seen.values, mask.tolist(), strict=True) if own]


def _finished(seen: Seen, n: int) -> list[int]:
    everyone = float(sum(10**r for r in range(n)))
    chunks = {k: _chunk(seen, n, k) for k in range(n)}
    return [k for k, values in chunks.items() if values and set(values) == {everyone}]
