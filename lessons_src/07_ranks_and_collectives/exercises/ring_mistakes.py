"""What the mistakes of exercise 7.3 look like: painted sums, and the wire log of each rank.

Each function recognises one, and returns what its sentence names. Two of them end in the same
tensors (1 1 10 10 100 100); only their messages differ.
"""

import torch

from dtlib.learn.explanations import digits, number


def owned(size, n, chunk):
    """The mask of one of `n` chunks, as the solution cuts them."""
    even = [size // n + (k < size % n) for k in range(n)]
    return torch.arange(n).repeat_interleave(torch.tensor(even)) == chunk


def alone(n, seen):
    return n == 1 and bool(seen[0].sent)


def collective(seen):
    for one in seen:
        if one.failure is not None and one.failure.error == "Forbidden":
            return {"rank": one.rank, "message": one.failure.message}
    return False


def chunk(x, n, seen):
    """torch.chunk gives fewer pieces than ranks."""
    size = x[0].numel()
    pieces = -(-size // -(-size // n))
    failed = any(one.failure is not None and one.failure.error == "IndexError" for one in seen)
    return failed and pieces < n and {"size": size, "pieces": pieces}


def of_a_tuple(seen):
    """`chunks[k] += …` on what tensor_split returns."""
    return any(
        one.failure is not None
        and one.failure.error == "TypeError"
        and "'tuple' object does not support item assignment" in one.failure.message
        for one in seen
    )


def in_no_chunk(got, x, n, seen):
    """An element that every rank left as it was, where the others have been summed somewhere."""
    start = [one.tolist() for one in x]
    still = [all(s.values[i] == x[i] for s, x in zip(seen, start, strict=True))
             for i in range(len(start[0]))]  # fmt: skip
    place = still.index(True) if any(still) else None
    if n == 1 or place is None or all(still):
        return False
    return {"place": place, "size": len(still), "chunks": len(still) - sum(still)}


def silent(got, n, seen):
    return n > 1 and not any(one.sent for one in seen)


def in_chunks(x, n, seen):
    """Whether chunks travelled, two on each rank at least, of a tensor painted in one colour."""
    size = x[0].numel()
    plain = n > 2 and size <= 64 and len(set(x[1].tolist())) == 1
    sent = [m.elements for one in seen for m in one.sent]
    return plain and min(len(one.sent) for one in seen) > 1 and set(sent) != {size}


def running_total(got, x, n, seen):
    size = x[0].numel()
    if size < 2 or any(m.elements != size for one in seen for m in one.sent):
        return False
    for one in seen:
        counts = digits(one.values[0], n) if one.sent and one.values else None
        twice = next((r for r, count in enumerate(counts or []) if count > 1), None)
        if twice is not None:
            return {"rank": one.rank, "got": number(one.values[0]), "twice": twice}
    return False


def new_object(got, x, n, seen):
    """The messages carry growing sums, and x holds what it held at the start."""
    untouched = all(set(one.values) == {10.0**one.rank} for one in seen)
    return n > 1 and untouched and grows(seen, n)


def overwrote(got, x, n, seen):
    """In step 2 a sum of two ranks should travel."""
    if not in_chunks(x, n, seen):
        return False
    others = [{10.0**k for k in range(n)} - {10.0**one.rank} for one in seen]
    lone = all(carried(one, 1) in other for one, other in zip(seen, others, strict=True))
    return lone and {"rank": 1, "got": number(carried(seen[1], 1))}


def same_chunk(got, x, n, seen):
    """Not from the chunk of step 1."""
    return in_chunks(x, n, seen) and all(s.sent[0].address == s.sent[1].address for s in seen)


def wrong_chunk(got, x, n, seen):
    """Name a chunk and a rank whose numbers never got into it."""
    if not in_chunks(x, n, seen) or any(carried(one, 1) != 10.0**one.rank for one in seen):
        return False
    for k in range(n):
        counts = [digits(value, n) for one in seen for value in cut(one, n, k)]
        for rank in range(n):
            if counts and all(c and c[rank] == 0 for c in counts):
                return {"chunk": k, "got": number(cut(seen[0], n, k)[0]), "rank": rank}
    value = cut(seen[0], n, 0)[0]
    missing = [rank for rank, count in enumerate(digits(value, n) or []) if count == 0]
    return {"chunk": 0, "got": number(value), "rank": missing[0] if missing else 0}


def mixed(got, want, x, n, seen):
    """Sums that were right for equal numbers, and hold another place's numbers: digits differ."""
    if len(set(x[0].tolist())) == 1:
        return False
    for one in seen:
        for place, value in enumerate(one.values):
            counts = digits(value, n)
            if not counts or 0 in counts or len(set(counts)) == 1:
                continue  # not summed yet, or as it should be
            rank = next(r for r, count in enumerate(counts) if count != place + 1)
            facts = {"got": number(value), "want": number(one.want[place]), "place": place}
            return {"rank": rank, "source": counts[rank] - 1, **facts}
    return False


def other_owner(got, n, seen):
    chunks = [finished(one, n) for one in seen]
    return n > 1 and sorted(chunks) == [[k] for k in range(n)] and {"chunk": chunks[0][0]}


def both_halves(got, n, seen):
    return n > 1 and all(len(finished(one, n)) == n for one in seen)


def rebound(got, n, seen):
    """Finished sums travelled in the second half, and each rank holds the one it had."""
    if not whole(n, seen) or any(
        carried(one, k) not in (None, everyone(n)) for one in seen for k in range(n - 1, 2 * n - 2)
    ):
        return False
    chunks = [finished(one, n) for one in seen]
    return all(len(own) == 1 for own in chunks) and {"chunk": chunks[0][0]}


def mean(got, n, seen):
    """The sum, divided."""
    want = seen[0].want
    wants = [value / n for value in want]
    told = {"got": number(wants[0]), "want": number(want[0])} if want else {}
    return n > 1 and bool(want) and all(one.values == wants for one in seen) and told


def half(got, n, seen):
    """Only the first half."""
    chunks = [finished(one, n) for one in seen]
    steps = n > 1 and grows(seen, n) and all(len(one.sent) == n - 1 for one in seen)
    if not steps or any(len(own) != 1 for own in chunks):
        return False
    done = ", ".join(f"rank {rank} chunk {own[0]}" for rank, own in enumerate(chunks))
    return {"done": done.replace("rank 0", "rank 0 has finished", 1)}


def whole(n, seen):
    """Whether there were two halves, and the first was right."""
    return n > 1 and grows(seen, n) and all(len(one.sent) == 2 * (n - 1) for one in seen)


def unfinished(got, n, seen):
    return whole(n, seen) and all(carried(one, n - 1) != everyone(n) for one in seen)


def added(got, n, seen):
    """Name a rank that was counted twice."""
    for one in seen if whole(n, seen) else ():
        for k in range(n):
            for value in cut(one, n, k):
                most = max(counts := digits(value, n) or [0])
                if most > 1:
                    facts = {"got": number(value), "rank": one.rank, "chunk": k}
                    return {"twice": counts.index(most), "times": most, **facts}
    return False


def everyone(n):
    return float(sum(10**r for r in range(n)))


def grows(seen, n):
    """Whether message k of each rank's first half carries exactly k ranks, each once."""
    for one in seen:
        if len(one.sent) < n - 1:
            return False
        for k in range(n - 1):
            value = carried(one, k)
            counts = digits(value, n) if value is not None else None
            if value is not None and (not counts or sum(counts) != k + 1 or max(counts) > 1):
                return False
    return True


def carried(seen, k):
    """The number that message k carried; None for an empty one."""
    return seen.sent[k].values[0] if seen.sent[k].values else None


def cut(seen, n, chunk):
    """What a rank holds of a chunk."""
    mask = owned(len(seen.values), n, chunk)
    return [value for value, own in zip(seen.values, mask.tolist(), strict=True) if own]


def finished(seen, n):
    chunks = [cut(seen, n, k) for k in range(n)]
    return [k for k, values in enumerate(chunks) if values and set(values) == {everyone(n)}]
