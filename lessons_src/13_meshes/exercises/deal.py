"""Exercise 13.5: two chunks of a long sequence for each rank, so that all compute the same."""

from dtlib.learn.answers import Answer
from dtlib.learn.readers import as_lists
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

deal_chunks = solution("deal_chunks", globals())


def read(got):
    """A list of two whole numbers for each rank."""
    if got is None:
        raise Wrong("none")
    found = as_lists(got)
    if not isinstance(found, list):
        raise Wrong("lists", got=type(got).__name__)
    for one in found:
        if not isinstance(one, list):
            raise Wrong("lists", got=f"list of {type(one).__name__}")
        odd = next((chunk for chunk in one if not isinstance(chunk, (int, float))), None)
        if odd is not None:
            raise Wrong("lists", got=f"list of lists of {type(odd).__name__}")
    return found


def work(chunks):
    """Pairs (query chunk, key chunk): chunk q sees the chunks 0 to q."""
    return sum(chunk + 1 for chunk in chunks)


def judge(got, ranks):
    """Every chunk once, two for each rank, and the same work for all."""
    if len(got) != ranks:
        return Wrong("ranks", count=len(got))
    dealt = [chunk for chunks in got for chunk in chunks]
    missing = sorted({*range(2 * ranks)} - {*dealt})
    strangers = [chunk for chunk in dealt if chunk not in range(2 * ranks)]
    if strangers:
        return Wrong("no_chunk", chunk=strangers[0], last=2 * ranks - 1)
    if missing:
        twice = next((chunk for chunk in dealt if dealt.count(chunk) > 1), None)
        key = "left_out" if twice is None else "twice"
        return Wrong(key, chunk=missing[0], twice=twice)
    if len(dealt) > 2 * ranks:
        return Wrong("twice", twice=next(c for c in dealt if dealt.count(c) > 1), chunk="none")
    counts = [len(chunks) for chunks in got]
    if {*counts} != {2}:
        return Wrong("counts", most=max(counts), least=min(counts))
    loads = [work(chunks) for chunks in got]
    if len({*loads}) > 1:
        return uneven(got, ranks, loads)
    return True


def uneven(got, ranks, loads):
    """The sentence for chunks whose work is not the same for all ranks."""
    rank = loads.index(max(loads))
    facts = {"loads": ", ".join(map(str, loads)), "rank": rank, "load": loads[rank],
             "pair": f"{got[rank][0]} and {got[rank][1]}"}  # fmt: skip
    if got == [[2 * r, 2 * r + 1] for r in range(ranks)]:
        return Wrong("neighbours", **facts)
    if [sorted(one) for one in got] == [[r, r + ranks] for r in range(ranks)]:
        return Wrong("round_robin", **facts)
    return Wrong("uneven", **facts)


def passed(got):
    loads = {work(chunks) for chunks in got[-1]}
    return Passed((("pairs of chunks on every rank of 5", f"{max(loads)}", 11, "pairs"),))


EXERCISE = Answer(
    deal_chunks,
    read=read,
    cases=[("2 ranks, 4 chunks", (2,)), ("3 ranks, 6 chunks", (3,)), ("1 rank, 2 chunks", (1,)),
           ("5 ranks, 10 chunks", (5,))],
    judge=judge,
    alone=True,
    other="uneven",
    passed=passed,
)  # fmt: skip
