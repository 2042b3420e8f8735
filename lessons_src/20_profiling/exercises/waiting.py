"""Exercise 20.4: how long each rank waits in its collectives until the last rank arrives."""

from collections.abc import Iterator

from dtlib.learn.answers import Answer
from dtlib.learn.readers import listed, number, shown, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

LATEST, WAIT = "[max(column) for column in zip(*begins)]", "last - own for"  # parts of the solution
# Rows are ranks, columns are collectives, numbers are when the rank arrives.
CASES = (
    [[2.0], [4.0], [1.0]],
    [[1.0, 12.0, 20.0], [4.0, 10.0, 26.0], [2.0, 11.0, 21.0]],
    [[3.0, 7.0]],
    [[5.0, 8.5], [5.0, 9.0], [1.25, 4.0], [5.0, 9.0]],
    [[0.1, 0.5], [0.2234567, 0.3]],
)

waited = solution("waited", globals())


def case(begins):
    """When each rank arrives, in words, and the arguments."""
    return "; ".join(f"rank {r} at {words(row)}" for r, row in enumerate(begins)), (begins,)


def read(got, begins):
    """A number for each rank; a generator still has to work them out, perhaps for ever."""
    if got is None or isinstance(got, Iterator):
        got = listed(got, "not_a_list")
    n = len(begins)
    if isinstance(got, (dict, set)):  # the keys of a dict are no seconds, and a set has no order
        raise Wrong("not_a_list", got=shown(got), n=n)
    try:
        entries = list(got)
    except TypeError:
        raise Wrong("not_a_list", got=shown(got), n=n) from None
    try:
        values = [number(value) for value in entries]
    except (TypeError, Wrong):
        raise Wrong("not_numbers", got=shown(got), n=n) from None
    if len(values) != n:
        key = "per_collective" if len(values) == len(begins[0]) else "length"
        raise Wrong(key, got=len(values), n=n)
    return values


def carried_on(begins):
    """A mistake: who has waited arrives later by that at the next collective."""
    late = [0.0] * len(begins)
    for column in zip(*begins, strict=True):
        arrive = [own + more for own, more in zip(column, late, strict=True)]
        late = [more + max(arrive) - own for more, own in zip(late, arrive, strict=True)]
    return late


EXERCISE = Answer(
    waited,
    read=read,
    # the first has one collective; what is wrong only later has another sentence
    cases=[(*case(begins), "waited" if k == 0 else "later") for k, begins in enumerate(CASES)],
    mistakes=[
        ("late", {LATEST: LATEST.replace("max", "min"), WAIT: "own - last for"}),
        ("negative", {WAIT: "own - last for"}),
        ("one_collective", lambda begins: waited([rank[:1] for rank in begins])),
        ("one_collective", lambda begins: waited([rank[-1:] for rank in begins])),
        ("mean", {"sum(": "1 / len(rank) * sum("}),
        ("longest", {"sum(": "max("}),
        ("one_latest", {LATEST: "[max(map(max, begins))] * len(begins[0])"}),
        ("first_rank", {LATEST: "begins[0]", WAIT: "max(0, last - own) for"}),
        ("first_rank", {LATEST: "begins[0]"}),
        ("own_row", {LATEST: "begins", WAIT: "max(rank) - own for"}),
        ("own_row", lambda begins: [rank[-1] - rank[0] for rank in begins]),
        ("carried_on", carried_on),
        ("same_rank", {LATEST: "max(begins, key=sum)"}),
        ("same_rank", {LATEST: "max(begins, key=sum)", WAIT: "max(0, last - own) for"}),
        ("whole_seconds", lambda begins: [int(seconds) for seconds in waited(begins)]),
        ("whole_seconds", lambda begins: waited([[int(t) for t in rank] for rank in begins])),
    ],
    other="waited",
    changed="changed",
    facts=lambda begins: {"n": len(begins), "k": len(begins[0])},
    passed=lambda got, want: Passed((("waited, 4 ranks", words(got[3]), words(want[3]), "s"),)),
)
