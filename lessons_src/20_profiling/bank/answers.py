"""Answers to lesson 20's exercises on time and waiting: to be refused, and to be accepted."""

import itertools
import statistics

# --- 20.1 median_seconds --------------------------------------------------------------------


def never_synchronizes(launch, synchronize, clock, repeats):
    launch()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        launch()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def empties_only_at_the_end(launch, synchronize, clock, repeats):
    launch()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def cold_mean(launch, synchronize, clock, repeats):
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return sum(seconds) / len(seconds)


def warm_seconds(launch, synchronize, clock, repeats):
    launch()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


def warm_mean(launch, synchronize, clock, repeats):
    return statistics.mean(warm_seconds(launch, synchronize, clock, repeats))


def warm_total(launch, synchronize, clock, repeats):
    return sum(warm_seconds(launch, synchronize, clock, repeats))


def in_milliseconds(launch, synchronize, clock, repeats):
    return 1000 * statistics.median(warm_seconds(launch, synchronize, clock, repeats))


def times_the_wait(launch, synchronize, clock, repeats):
    launch()
    synchronize()
    seconds = []
    for _ in range(repeats):
        launch()
        begin = clock()
        synchronize()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def forgets_to_launch(launch, synchronize, clock, repeats):
    begin = clock()
    synchronize()
    return clock() - begin


def once_only(launch, synchronize, clock, repeats):
    launch()
    synchronize()
    begin = clock()
    launch()
    synchronize()
    return clock() - begin


def the_list(launch, synchronize, clock, repeats):
    return warm_seconds(launch, synchronize, clock, repeats)


def for_ever(launch, synchronize, clock, repeats):
    begin = clock()
    while True:
        launch()
        if clock() < begin:
            return 0.0


def half_of_it(launch, synchronize, clock, repeats):
    return statistics.median(warm_seconds(launch, synchronize, clock, repeats)) / 2


def around_the_loop(launch, synchronize, clock, repeats):
    launch()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        launch()
    synchronize()
    return (clock() - begin) / repeats


# Right.
def sorted_middle(launch, synchronize, clock, repeats):
    for _ in range(2):
        launch()
    synchronize()
    seconds = []
    while len(seconds) < repeats:
        before = clock()
        launch()
        synchronize()
        seconds.append(clock() - before)
    return sorted(seconds)[len(seconds) // 2]


def first_thrown_away(launch, synchronize, clock, repeats):
    marks = [(synchronize(), clock(), launch(), synchronize(), clock()) for _ in range(repeats + 1)]
    return statistics.median(end - begin for _, begin, _, _, end in marks[1:])


# --- 20.2 busy ------------------------------------------------------------------------------


def adds_durations(intervals):
    return sum(end - begin for begin, end in intervals)


def first_to_last(intervals):
    if not intervals:
        return 0
    return max(end for _, end in intervals) - min(begin for begin, _ in intervals)


def as_they_come(intervals):
    total, reached = 0.0, float("-inf")
    for begin, end in intervals:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def looks_at_the_neighbour(intervals):
    total, before = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += end - max(begin, before)
        before = end
    return total


def takes_the_longest(intervals):
    return max((end - begin for begin, end in intervals), default=0)


def not_for_none(intervals):
    ordered = sorted(intervals)
    return float("nan") if not ordered else busy_by_events(ordered)


def sorts_in_place(intervals):
    intervals.sort()
    return busy_by_events(intervals)


def counts_them(intervals):
    return 2.5 * len(intervals)


# Right.
def busy_by_events(intervals):
    events = sorted([(b, 1) for b, _ in intervals] + [(e, -1) for _, e in intervals])
    total = depth = 0
    for (at, change), (after, _) in itertools.pairwise([*events, (0, 0)]):
        depth += change
        if depth:
            total += after - at
    return total


def busy_by_merging(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end])
    return sum(end - begin for begin, end in merged)


# --- 20.3 exposed ---------------------------------------------------------------------------


def all_communication(communication, compute):
    return busy_by_merging(communication)


def what_is_hidden(communication, compute):
    both = busy_by_merging([*communication, *compute])
    return busy_by_merging(communication) + busy_by_merging(compute) - both


def difference_of_totals(communication, compute):
    return max(0, busy_by_merging(communication) - busy_by_merging(compute))


def subtracts_every_pair(communication, compute):
    shared = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in communication for b in compute)
    return sum(end - begin for begin, end in communication) - shared


def the_other_way_round(communication, compute):
    return busy_by_merging([*communication, *compute]) - busy_by_merging(communication)


def sorts_what_it_gets(communication, compute):
    communication.sort()
    return exposed_by_points(communication, compute)


def after_compute_ends(communication, compute):
    last = max((end for _, end in compute), default=min((b for b, _ in communication), default=0))
    return max(0, max((end for _, end in communication), default=0) - last)


def drops_what_overlaps(communication, compute):
    kept = [a for a in communication if not any(a[0] < b[1] and b[0] < a[1] for b in compute)]
    return busy_by_merging(kept)


# Right.
def exposed_by_points(communication, compute):
    points = sorted({at for span in [*communication, *compute] for at in span})
    total = 0
    for begin, end in itertools.pairwise(points):
        inside = [
            any(b <= begin and end <= e for b, e in side) for side in (communication, compute)
        ]
        total += (end - begin) * (inside[0] and not inside[1])
    return total


def exposed_by_hidden(communication, compute):
    return busy_by_events(communication) - what_is_hidden(communication, compute)


# --- 20.4 waited ----------------------------------------------------------------------------


def how_late(begins):
    first = [min(column) for column in zip(*begins, strict=True)]
    return [sum(own - one for own, one in zip(rank, first, strict=True)) for rank in begins]


def below_zero(begins):
    return [-seconds for seconds in right_waits(begins)]


def first_collective(begins):
    last = max(rank[0] for rank in begins)
    return [last - rank[0] for rank in begins]


def mean_wait(begins):
    return [seconds / len(begins[0]) for seconds in right_waits(begins)]


def longest_wait(begins):
    latest = [max(column) for column in zip(*begins, strict=True)]
    return [max(last - own for last, own in zip(latest, rank, strict=True)) for rank in begins]


def the_latest_of_all(begins):
    last = max(max(rank) for rank in begins)
    return [sum(last - own for own in rank) for rank in begins]


def behind_the_slowest(begins):
    slowest = max(begins, key=sum)
    return [sum(a - b for a, b in zip(slowest, rank, strict=True)) for rank in begins]


def for_each_collective(begins):
    return [max(column) - min(column) for column in zip(*begins, strict=True)]


def one_rank_more(begins):
    return [0.0, 0.0, *right_waits(begins)]


def all_that_was_waited(begins):
    return [sum(right_waits(begins))] * len(begins)


def one_number(begins):
    return sum(right_waits(begins))


# Right.
def right_waits(begins):
    columns = list(zip(*begins, strict=True))
    return [sum(max(c) - c[r] for c in columns) for r in range(len(begins))]


def waits_step_by_step(begins):
    totals = dict.fromkeys(range(len(begins)), 0.0)
    for column in zip(*begins, strict=True):
        for rank, own in enumerate(column):
            totals[rank] += max(column) - own
    return tuple(totals.values())


WRONG = [
    ("median_seconds", "launch_only", never_synchronizes),
    ("median_seconds", "old_queue", empties_only_at_the_end),
    ("median_seconds", "cold", cold_mean),
    ("median_seconds", "mean", warm_mean),
    ("median_seconds", "total", warm_total),
    ("median_seconds", "milliseconds", in_milliseconds),
    ("median_seconds", "wait_only", times_the_wait),
    ("median_seconds", "never_called", forgets_to_launch),
    ("median_seconds", "too_few", once_only),
    ("median_seconds", "not_a_number", the_list),
    ("median_seconds", "too_many", for_ever),
    ("median_seconds", "other", half_of_it),
    ("busy", "sum", adds_durations),
    ("busy", "whole_stretch", first_to_last),
    ("busy", "unsorted", as_they_come),
    ("busy", "inside", looks_at_the_neighbour),
    ("busy", "longest", takes_the_longest),
    ("busy", "empty", not_for_none),
    ("busy", "changed", sorts_in_place),
    ("busy", "busy", counts_them),
    ("exposed", "all_of_it", all_communication),
    ("exposed", "hidden", what_is_hidden),
    ("exposed", "totals", difference_of_totals),
    ("exposed", "twice", subtracts_every_pair),
    ("exposed", "swapped", the_other_way_round),
    ("exposed", "after_the_end", after_compute_ends),
    ("exposed", "exposed", drops_what_overlaps),
    ("exposed", "changed", sorts_what_it_gets),
    ("waited", "late", how_late),
    ("waited", "negative", below_zero),
    ("waited", "one_collective", first_collective),
    ("waited", "mean", mean_wait),
    ("waited", "longest", longest_wait),
    ("waited", "one_latest", the_latest_of_all),
    ("waited", "same_rank", behind_the_slowest),
    ("waited", "per_collective", for_each_collective),
    ("waited", "not_a_list", one_number),
    ("waited", "length", one_rank_more),
    ("waited", "waited", all_that_was_waited),
]

ALSO_WRONG = [("median_seconds", "mean", around_the_loop)]

RIGHT = [
    ("median_seconds", sorted_middle),
    ("median_seconds", first_thrown_away),
    ("busy", busy_by_events),
    ("busy", busy_by_merging),
    ("exposed", exposed_by_points),
    ("exposed", exposed_by_hidden),
    ("waited", right_waits),
    ("waited", waits_step_by_step),
]

BUSY = """\
def busy(intervals):
    return {total}"""
LADDER = (
    "busy",
    BUSY.format(total="sum(end - begin for begin, end in intervals)"),
    BUSY.format(total="sum(pair[1] - pair[0] for pair in intervals)"),
)
