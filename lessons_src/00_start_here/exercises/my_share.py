"""The first exercise: a rank's share of a batch. Which samples go where is free."""

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# Ranks and samples of the cases, in order. At 2 ranks many wrong answers are right.
SHARES = ((1, 4), (3, 6), (4, 8), (3, 7), (3, 8), (4, 2))


def joined(things):
    """A list in words: 1, 3 and 4."""
    words = [str(thing) for thing in things]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def case(world_size, size):
    """So many samples on so many ranks."""
    label = f"{size} samples, {world_size} rank{'s' if world_size > 1 else ''}"
    return label, ([f"s{i}" for i in range(size)], world_size)


def run(answer, batch, world_size):
    """The shares of all ranks, one after the other: no process is needed."""
    return [_share(answer, batch, rank, world_size) for rank in range(world_size)]


def _share(answer, batch, rank, world_size):
    own, seen = list(batch), {"rank": rank, "size": len(batch)}
    try:
        share = answer(own, rank, world_size)
    except ValueError as error:
        if "step cannot be zero" in str(error):
            raise Wrong("swapped") from None
        raise
    if own != batch:
        raise Wrong("changed", left=len(own), **seen)
    if share is None:
        raise Wrong("none", **seen)
    if isinstance(share, str):
        raise Wrong("one_sample", got=share, **seen)
    if not isinstance(share, (list, tuple)):
        raise Wrong("not_a_list", got=type(share).__name__, **seen)
    for sample in share:
        if sample not in batch:
            raise Wrong("foreign", got=sample, **seen)
    return list(share)


def judge(got, batch, world_size):
    """The mistake that the shares of all ranks show, if any."""
    n, sizes = world_size, [len(share) for share in got]
    if n > 1 and all(sorted(share) == sorted(batch) for share in got):
        return Wrong("whole_batch")
    if n > 1 and got[0] and all(share == got[0] for share in got):
        return Wrong("same_share", got=joined(got[0]))
    owner: dict[str, int] = {}
    for rank, share in enumerate(got):
        for sample in share:
            if owner.get(sample) == rank:
                return Wrong("repeated", sample=sample, rank=rank, count=share.count(sample))
            if sample in owner:
                return Wrong("overlap", sample=sample, first=owner[sample], second=rank)
            owner[sample] = rank
    missing, uneven = len(batch) - len(owner), max(sizes) - min(sizes) > 1
    if (missing or uneven) and n > 1 and got[:2] == [batch[:n], batch[n : 2 * n]]:
        return Wrong("pieces_of_n")
    if not missing:
        return Wrong("tail_heap") if uneven else True
    if len(batch) % n == 0 and any(got) and [] in (got[0], got[-1]):
        return Wrong("from_one")
    return Wrong("tail_dropped" if missing == len(batch) % n else "missing")


def facts(got, batch):
    """What the ranks took, and what nobody did."""
    missing = [sample for sample in batch if not any(sample in share for share in got)]
    found = {"size": len(batch), "sizes": joined(map(len, got)), "missing": joined(missing)}
    return found | ({"empty": got.index([])} if [] in got else {})


LARGEST = " and ".join(f"{size} on {ranks}" for ranks, size in SHARES[-3:])

EXERCISE = Answer(
    solution("my_share", globals()),
    run=run,
    judge=judge,
    alone=True,
    cases=[case(*one) for one in SHARES],
    other="unrecognised",
    facts=facts,
    passed=lambda got: Passed(note=f"Every sample is taken once, also with {LARGEST} ranks."),
)
