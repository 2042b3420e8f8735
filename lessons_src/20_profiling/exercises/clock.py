"""Exercise 20.1: time what a device does, and not how fast it is told to do it.

The device is simulated, with a virtual clock, so that an answer gets the same numbers on every
machine. A call is on the queue at once and done later. Calls count from 0: call 0 takes long, and
the later ones take the times of their case again and again.
"""

import itertools
import math
import statistics
from dataclasses import dataclass

from dtlib.learn.alike import rounded
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import shown, told_apart, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

LAUNCH, WORK, FIRST, LATE = 0.001, 0.020, 0.500, 0.090
QUICK = 0.6  # of the usual work
MOST = 1000
SAME = 1e-6  # relative: an answer may keep its times in float32
# parts of the solution
WARM, MEDIAN = "launch()\n    seconds", "statistics.median(seconds)"
BEGUN = "launch()\n    synchronize()\n    begin = clock()\n    seconds"
TIMED, ROUNDS = "clock() - begin", "range(repeats)"
UNEMPTIED = {"synchronize()\n        begin": "begin"}
LAUNCHED = {**UNEMPTIED, "launch()\n        synchronize()": "launch()"}
COLD = {WARM: "seconds"}
CUTS = [f"round({MEDIAN}, {digits})" for digits in range(5)] + [f"int({MEDIAN})"]

median_seconds = solution("median_seconds", globals())


def usual(work):
    """How long the calls keep a device busy of which most calls take equally long."""
    return (LATE, work, work, QUICK * work)


UNEVEN = (0.020, 0.010, 0.040)  # any three in a row have the same median
EVEN = (0.040, 0.010, 0.030, 0.020)  # any four in a row do
SLOW = (1.7, 1.8, 1.6)  # the first call is the quickest
# No two calls take equally long, and none a whole number of microseconds.
ANY = tuple(1.2345678e-4 * (1 + 37 * k % 101) for k in range(101))


class Device:
    """A queue with its own clock: `launch` adds work, `synchronize` waits until it is empty."""

    def __init__(self, works=None):
        self.works = works or usual(WORK)
        self.now = 100.0  # a clock that does not begin at 0
        self.free = self.now
        self.takes = []  # seconds of each call, from its launch to its end
        self.reads = self.busy_reads = 0

    def launch(self):
        """Put one call on the queue, which takes the caller a millisecond."""
        k = len(self.takes)
        if k == MOST:
            raise Wrong("too_many", got=MOST)
        self.now += LAUNCH
        work = self.works[k % len(self.works)] if k else FIRST
        self.free = max(self.free, self.now) + work
        self.takes.append(LAUNCH + work)

    def synchronize(self):
        """Wait until the queue is empty."""
        self.now = max(self.now, self.free)

    def clock(self):
        """Read the clock, in seconds."""
        self.reads += 1
        self.busy_reads += self.free > self.now
        return self.now


@dataclass
class Timed:
    """What an answer returned, and what it did with its device."""

    seconds: float
    takes: list[float]
    reads: int
    busy_reads: int

    def middle(self, calls):
        """The median of that many last calls."""
        return statistics.median(self.takes[-calls:])

    def is_(self, *values):
        """Whether the answer returned one of these numbers of seconds."""
        return any(math.isclose(self.seconds, value, rel_tol=SAME) for value in values)


def case(repeats, works):
    """How often a call is timed, and how long it takes."""
    some = works[1:4] if works is ANY else (*works[1:], works[0])
    each = ", ".join(words(work * 1e3) for work in some)
    rest = "and never the same again" if works is ANY else "and the same again"
    return (
        f"repeats = {repeats}; a call is launched in {LAUNCH * 1e3:.0f} ms and keeps the device"
        f" busy for {FIRST * 1e3:.0f} ms (call 0), then {each}, {rest}",
        (repeats, works),
    )


def run(answer, repeats, works):
    """Time calls of a new device."""
    device = Device(works)
    got = answer(device.launch, device.synchronize, device.clock, repeats)
    if got is None:
        raise Wrong("none")
    try:
        return Timed(to_number(got), device.takes, device.reads, device.busy_reads)
    except Wrong:
        raise Wrong("not_a_number", got=shown(got)) from None


def judge(got, want, repeats, works):
    """A right number may rest on too few calls, or on a clock that was read at a wrong moment.

    Where no two calls take equally long, it depends on how many calls were thrown away.
    """
    if not got.takes:
        return Wrong("never_called")
    if not got.reads:
        return Wrong("no_clock")
    if not got.is_(got.middle(repeats) if works == ANY else want.seconds):
        return False
    if len(got.takes) < 1 + repeats:
        return Wrong("too_few", got=len(got.takes))
    return Wrong("old_queue", got=got.busy_reads) if got.busy_reads else True


def other_number(got, repeats):
    """A mistake: the median of another number of calls than `repeats`, after the first."""
    timed = len(got.takes) - 1
    return timed > repeats and got.is_(got.middle(timed)) and {"timed": timed}


def less(got, want):
    """A mistake: a number of seconds with fewer digits."""
    return rounded(got.seconds, want.seconds) is not None


def facts(got, want, repeats):
    """The times in milliseconds, and the counts."""
    ms = {"launch": LAUNCH, "first": FIRST}
    found = {key: words(round(value * 1e3, 9)) for key, value in ms.items()}
    mine, right = told_apart(*(round(one.seconds * 1e3, 9) for one in (got, want)))
    calls = len(got.takes)
    return found | {
        "got": mine,
        "right": right,
        "calls": calls,
        "repeats": repeats,
        "timed": calls - 1,
    }


def passed(got, want):
    """Report the first case."""
    mine, right = (words(round(one.seconds * 1e3, 9)) for one in (got[0], want[0]))
    return Passed((("median of a call", mine, right, "ms"),))


EXERCISE = Answer(
    median_seconds,
    run=run,
    judge=judge,
    same=lambda a, b: a.is_(b.seconds),
    # The second case has another device, whose last call takes long; the third, more repeats. In
    # the next two all times differ: it matters which calls are timed, and which is in the middle.
    # In the sixth case the first call is not the slowest. In the last no two calls take equally
    # long, so that the number of calls matters, and every digit.
    cases=[
        case(5, usual(WORK)), case(4, usual(WORK / 2)), case(9, usual(WORK)), case(3, UNEVEN),
        case(4, EVEN), case(3, SLOW), case(5, ANY),
    ],
    mistakes=[
        ("launch_only", LAUNCHED),
        ("launch_only", {**LAUNCHED, MEDIAN: "sum(seconds)"}),
        ("milliseconds", {MEDIAN: f"1e3 * {MEDIAN}"}),
        ("negative", {TIMED: "begin - clock()"}),
        Mistake("begun_once", {"begin = clock()\n        launch()": "launch()", WARM: BEGUN},
                when=lambda got, repeats: len(got.takes) > repeats and got.is_(
                    statistics.median(itertools.accumulate(got.takes[-repeats:])))),
        ("quickest", {MEDIAN: "min(seconds)"}),
        ("slowest", {MEDIAN: "max(seconds)"}),
        ("first_of_them", {MEDIAN: "seconds[0]"}),
        ("not_sorted", {MEDIAN: "seconds[len(seconds) // 2]"}),
        ("mean", {MEDIAN: "statistics.mean(seconds)"}),
        Mistake("cold", {**COLD, MEDIAN: "statistics.mean(seconds)"},
                when=lambda got, repeats: got.is_(
                    total := sum(got.takes[:repeats]), total / repeats)),
        ("cold", {**COLD, MEDIAN: "sum(seconds)"}),
        ("cold", {**COLD, ROUNDS: "range(repeats + 1)"}),
        Mistake("one_more", {ROUNDS: "range(repeats + 1)"}, when=other_number),
        ("nothing", {"begin = clock()\n        launch()\n        synchronize()":
                     "begin = clock()", "seconds.append(clock() - begin)":
                     "seconds.append(clock() - begin); launch()"}),
        *(Mistake("rounded", {MEDIAN: f"{cut}"}, when=less) for cut in CUTS),
        ("drops_slowest", {
            **COLD, ROUNDS: "range(repeats + 1)",
            MEDIAN: "statistics.median(sorted(seconds)[:-1])"}),
        ("even", {MEDIAN: "sorted(seconds)[len(seconds) // 2]"}),
        ("even", {MEDIAN: "sorted(seconds)[(len(seconds) - 1) // 2]"}),
        Mistake("total", {MEDIAN: "sum(seconds)"},
                when=lambda got, repeats: got.is_(sum(got.takes[1:][-repeats:]))),
        ("total", {MEDIAN: f"repeats * {MEDIAN}"}),
        ("wait_only", {"begin = clock()\n        launch()": "launch()\n        begin = clock()"}),
        Mistake("old_queue", UNEMPTIED,
                when=lambda got: got.busy_reads and {"got": got.busy_reads}),
        Mistake("kept",
                when=lambda got, works: works == usual(WORK / 2) and got.is_(LAUNCH + WORK)),
        Mistake("last_call", {MEDIAN: "seconds[-1]"}, when=lambda got: got.is_(got.takes[-1])),
        # for calls that were put on the queue together
        Mistake("mean", when=lambda got, want: want.seconds < got.seconds < max(got.takes[1:])),
    ],
    facts=facts,
    passed=passed,
)  # fmt: skip
