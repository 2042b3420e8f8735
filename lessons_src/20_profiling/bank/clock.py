"""More answers to `median_seconds`, for the tests alone."""

import statistics
import time

import torch

from dtlib.learn.solutions import altered

from ..exercises.clock import MEDIAN, WARM, median_seconds


def for_ever(launch, synchronize, clock, repeats):
    while clock() > 0:
        launch()


def around_the_loop(launch, synchronize, clock, repeats):
    launch()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        launch()
    synchronize()
    return (clock() - begin) / repeats


def begins_once(launch, synchronize, clock, repeats):
    launch()
    synchronize()
    seconds, begin = [], clock()
    for _ in range(repeats):
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def one_cold_call(launch, synchronize, clock, repeats):
    begin = clock()
    launch()
    synchronize()
    return clock() - begin


_seconds: list[float] = []


def keeps_its_list(launch, synchronize, clock, repeats):
    launch()
    for _ in range(repeats):
        synchronize()
        begin = clock()
        launch()
        synchronize()
        _seconds.append(clock() - begin)
    return statistics.median(_seconds)


def own_clock(launch, synchronize, clock, repeats):
    return median_seconds(launch, synchronize, time.time, repeats)


def upper_middle(launch, synchronize, clock, repeats):
    return statistics.median_high(sorted(timed_twice_warm(launch, synchronize, clock, repeats)))


def timed_twice_warm(launch, synchronize, clock, repeats):
    launch(), launch(), synchronize()
    marks = [(clock(), launch(), synchronize(), clock()) for _ in range(repeats)]
    return [end - begin for begin, _, _, end in marks]


def calls(number):
    """However often a call should be timed, this answer times so many."""
    return lambda launch, synchronize, clock, repeats: median_seconds(
        launch, synchronize, clock, number(repeats)
    )


# Right.
def warm_for_long(launch, synchronize, clock, repeats):
    for _ in range(11):
        launch()
    return median_seconds(launch, synchronize, clock, repeats)


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
    seconds.sort()
    return (seconds[(repeats - 1) // 2] + seconds[repeats // 2]) / 2


def first_thrown_away(launch, synchronize, clock, repeats):
    marks = [(synchronize(), clock(), launch(), synchronize(), clock()) for _ in range(repeats + 1)]
    return statistics.median(end - begin for _, begin, _, _, end in marks[1:])


def by_torch(launch, synchronize, clock, repeats):
    return torch.tensor(timed_twice_warm(launch, synchronize, clock, repeats)).quantile(0.5)


ALSO_WRONG = [
    ("never_called", {WARM: "seconds", "        launch()\n": ""}),
    ("never_called", lambda launch, synchronize, clock, repeats: 0.021),
    ("no_clock", own_clock),
    ("too_few", {"range(repeats)": "range(repeats - 1)"}),
    ("too_few", {"range(repeats)": "range(1)"}),
    ("too_few", {WARM: "seconds"}),
    ("first_of_them", {MEDIAN: "statistics.mode(seconds)"}),
    ("not_a_number", lambda launch, synchronize, clock, repeats: float("nan")),
    ("not_a_number", altered(median_seconds, {MEDIAN: "seconds"})),
    ("too_many", for_ever),
    ("other", altered(median_seconds, {MEDIAN: f"{MEDIAN} / 2"})),
    ("begun_once", begins_once),
    ("mean", around_the_loop),
    ("cold", one_cold_call),
    ("kept", keeps_its_list),
    ("last_call", {"        seconds.append": "    seconds.append"}),
    ("too_few", {"range(repeats)": "range(5)"}),
    ("even", upper_middle),
    *(("one_more", calls(lambda repeats, number=number: number)) for number in (10, 12, 20)),
    ("one_more", calls(lambda repeats: 2 * repeats)),
    *(("rounded", {MEDIAN: f"round({MEDIAN}, {digits})"}) for digits in (1, 2, 3, 4, 5, 6)),
    ("rounded", {MEDIAN: f"int(1e3 * {MEDIAN}) / 1e3"}),
    ("rounded", {"clock() - begin": "round(clock() - begin, 3)"}),
]
ALSO_RIGHT = [warm_for_long, sorted_middle, first_thrown_away, by_torch]
