"""More answers to `busy`, for the tests alone."""

import itertools

from ..exercises.busy import busy


def sorts_in_place(intervals):
    intervals.sort()
    return busy(intervals)


# Right.
def by_events(intervals):
    events = sorted([(b, 1) for b, _ in intervals] + [(e, -1) for _, e in intervals])
    total = depth = 0
    for (at, change), (after, _) in itertools.pairwise([*events, (0, 0)]):
        depth += change
        if depth:
            total += after - at
    return total


def by_merging(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end])
    return sum(end - begin for begin, end in merged)


ALSO_WRONG = [
    ("changed", sorts_in_place),
    ("kind", lambda intervals: f"{busy(intervals)} s"),
    ("raised", lambda intervals: len({t for b, e in intervals for t in range(b, e)})),
    ("busy", lambda intervals: 2.5 * len(intervals)),
]
ALSO_RIGHT = [by_events, by_merging]

BUSY = """\
def busy(intervals):
    return {total}"""
LADDER = (
    BUSY.format(total="sum(end - begin for begin, end in intervals)"),
    BUSY.format(total="sum(pair[1] - pair[0] for pair in intervals)"),
)
