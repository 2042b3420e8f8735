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
    ([(0, 4), (2, 6)], []),
    ([(0, 4), (3, 8)], [(2, 5)]),
    ([(0, 8)], [(1, 4), (2, 5), (9, 20)]),
    ([(5, 6), (0, 2)], [(0, 9)]),
    ([], [(0, 1)]),
    ([(0.25, 2)], [(0.5, 1)]),  # between whole seconds
    ([(0.0, 0.2345678)], [(0.1, 0.2)]),  # to a fraction of a microsecond
)

exposed = solution("exposed", globals())


def added(intervals):
    """The sum of the durations."""
    return sum(end - begin for begin, end in intervals)


def overlaps(communication, compute):
    """What each message shares with each computation."""
    pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a in communication for b in compute]
    return [(begin, end) for begin, end in pairs if begin < end]


def in_whole_seconds(communication, compute):
    """A mistake: it counts the whole seconds of one side that are not in the other."""
    ticks = [
        {t for begin, end in side for t in range(int(begin), int(end))}
        for side in (communication, compute)
    ]
    return float(len(ticks[0] - ticks[1]))


def after_the_end(communication, compute):
    """A mistake: what comes after the last computation."""
    ends = [max((end for _, end in side), default=0) for side in (communication, compute)]
    return max(0, ends[0] - ends[1])


def begun_by_the_end(communication, compute):
    """The same, without the gaps between the messages."""
    last = max((end for _, end in compute), default=0)
    return sum(max(0, end - max(begin, last)) for begin, end in communication)


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
        ("twice", lambda *sides: added(sides[0]) - added(overlaps(*sides))),
        ("twice", lambda *sides: union(sides[0]) - added(overlaps(*sides))),
        ("twice", lambda *sides: added(sides[0]) - union(overlaps(*sides))),
        ("twice", lambda *sides: sum(exposed([one], sides[1]) for one in sides[0])),
        ("after_the_end", after_the_end),
        ("after_the_end", begun_by_the_end),
        ("share", lambda *sides: exposed(*sides) / union(sides[0]) if sides[0] else 0),
        ("whole_seconds", in_whole_seconds),
    ],
    other="exposed",
    facts=lambda communication, compute: {
        "comm": words(union(communication)),
        "comp": words(union(compute)),
    },
    passed=lambda got: Passed((("exposed, the first case", words(got[0]), "19", "s"),)),
)
