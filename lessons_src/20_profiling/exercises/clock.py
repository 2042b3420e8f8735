"""Exercise 20.1: time what a device does, and not how fast it is told to.

The device is simulated, in virtual milliseconds, so that every answer gives the same numbers on
every machine: a call is on its queue at once and done later, the first one takes long, and now and
then one takes longer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask, to_number
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import number

LAUNCH, WORK, FIRST, LATE = 0.001, 0.020, 0.500, 0.090
REPEATS = 5
MOST = 1000


class Device:
    """A queue with its own clock: `launch` adds work to it, `synchronize` waits for its end."""

    def __init__(self) -> None:
        self.now = 100.0  # a clock that does not begin at 0
        self.free = self.now
        self.launched = self.busy_reads = 0

    def launch(self) -> None:
        """Put one call on the queue, which takes the caller a millisecond."""
        self.now += LAUNCH
        takes = FIRST if self.launched == 0 else LATE if self.launched % 4 == 0 else WORK
        self.free = max(self.free, self.now) + takes
        self.launched += 1
        if self.launched > MOST:
            raise Wrong("too_many", f"repeats = {REPEATS}", got=MOST)

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.now = max(self.now, self.free)

    def clock(self) -> float:
        """Read the clock, in seconds."""
        self.busy_reads += self.free > self.now
        return self.now


def reference(
    launch: Callable[[], None],
    synchronize: Callable[[], None],
    clock: Callable[[], float],
    repeats: int,
) -> float:
    """One call to warm up; then each between two looks at the clock, the queue empty at both."""
    launch()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        launch()
        synchronize()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def check(student: Callable[..., Any]) -> Passed:
    """Ask for the median of 5 calls of the simulated device."""
    case = (
        f"repeats = {REPEATS}; a call is launched in {LAUNCH * 1e3:.0f} ms and done after"
        f" {WORK * 1e3:.0f} ms, the first after {FIRST * 1e3:.0f}, every fourth after"
        f" {LATE * 1e3:.0f}"
    )
    device = Device()
    got = ask(student, device.launch, device.synchronize, device.clock, REPEATS, case=case)
    if got is None:
        raise Wrong("none", case)
    try:
        got = to_number(got, case)
    except Wrong:
        raise Wrong("not_a_number", case, got=type(got).__name__) from None
    right = LAUNCH + WORK
    if abs(got - right) < 1e-9:
        if device.launched < 1 + REPEATS:
            raise Wrong("too_few", case, got=device.launched, repeats=REPEATS)
        if device.busy_reads:
            raise Wrong("old_queue", case, got=device.busy_reads)
        return Passed((("median of a call", number(got * 1e3), number(right * 1e3), "ms"),))
    raise _explain(device, got, case)


def _explain(device: Device, got: float, case: str) -> Wrong:
    right = LAUNCH + WORK
    calls = [LAUNCH + (LATE if k % 4 == 0 else WORK) for k in range(1, device.launched)]
    timed = calls[-REPEATS:]
    cold = [LAUNCH + FIRST, *calls][:REPEATS]
    facts = {
        "got": number(got * 1e3), "launch": number(LAUNCH * 1e3), "right": number(right * 1e3),
        "first": number(FIRST * 1e3), "calls": device.launched, "repeats": REPEATS,
    }  # fmt: skip
    if device.launched == 0:
        return Wrong("never_called", case, **facts)
    known = {
        "launch_only": [LAUNCH],
        "all_launches": [LAUNCH * REPEATS, LAUNCH * REPEATS / 1e3],
        "milliseconds": [right * 1e3],
        "mean": [sum(timed) / REPEATS],
        "cold": [sum(cold) / REPEATS, sum(cold)],
        "total": [sum(timed), statistics.median(timed) * REPEATS],
        "wait_only": [WORK],
    }
    for key, values in known.items():
        if any(abs(got - value) < 1e-9 for value in values):
            return Wrong(key, case, **facts)
    if device.busy_reads:
        return Wrong("old_queue", case, **(facts | {"got": device.busy_reads}))
    if right < got < max(calls, default=0.0):
        return Wrong("mean", case, **facts)  # of calls that were put on the queue together
    return Wrong("other", case, **facts)
