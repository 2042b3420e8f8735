"""Exercise 20.3: communication that no computation hides."""

from dtlib.learn.answers import Answer
from dtlib.learn.readers import words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

from .busy import asked, show
from .busy import busy as union

EXPOSED = "union([*communication, *compute]) - union(compute)"  # part of the solution
CASES: tuple[tuple[list, list], ...] = (
    ([(4, 14), (16, 26), (30, 36)], [(0, 7), (20, 24)]),
    ([(2, 5)], []),
    ([(2, 5)], [(6, 9)]),
    ([(0, 4), (3, 8)], [(2, 5)]),
    ([(0, 8)], [(1, 4), (2, 5), (9, 20)]),
    ([(5, 6), (0, 2)], [(0, 9)]),
    ([], [(0, 1)]),
)

exposed = solution("exposed", globals())


def less_each_pair(communication, compute):
    """A mistake: time that two intervals of one side share with the other is subtracted twice."""
    pairs = [(a, b) for a in communication for b in compute]
    shared = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)
    return sum(end - begin for begin, end in communication) - shared


def after_the_end(communication, compute):
    """A mistake: what comes after the last computation."""
    ends = [max((end for _, end in side), default=0) for side in (communication, compute)]
    return max(0, ends[0] - ends[1])


EXERCISE = Answer(
    exposed,
    run=lambda answer, communication, compute: asked(answer, communication, compute),
    cases=[
        (f"communication {show(one)}, compute {show(other)}", (one, other)) for one, other in CASES
    ],
    mistakes=[
        ("hidden", {EXPOSED: f"union(communication) - ({EXPOSED})"}),
        ("all_of_it", {EXPOSED: "union(communication)"}),
        ("swapped", lambda communication, compute: exposed(compute, communication)),
        ("either", {EXPOSED: "union([*communication, *compute])"}),
        ("totals", {EXPOSED: "union(communication) - union(compute)"}),
        ("totals", {EXPOSED: "max(0, union(communication) - union(compute))"}),
        ("twice", less_each_pair),
        ("after_the_end", after_the_end),
    ],
    other="exposed",
    facts=lambda communication, compute: {
        "comm": words(union(communication)),
        "comp": words(union(compute)),
    },
    passed=lambda got: Passed((("exposed, the first case", words(got[0]), "19", "s"),)),
)
