"""Where a step's time goes: record it on every rank, read the traces, work out shares, judge.

    with profiling.record("trace") as step:
        for x, y in profiling.input_of(loader):
            ...
            step()
    print(profiling.verdict(profiling.shares(profiling.read("trace"))))

The verdict says what bounds the step.
"""

from dtlib.measure.profiling.intervals import length
from dtlib.measure.profiling.monitor import Monitor, read_samples
from dtlib.measure.profiling.ranges import Steps, mark, marked, nvtx
from dtlib.measure.profiling.recording import (
    Recording,
    communication,
    forget,
    input_of,
    record,
    recording,
)
from dtlib.measure.profiling.shares import Shares, shares
from dtlib.measure.profiling.timing import seconds_of
from dtlib.measure.profiling.traces import read
from dtlib.measure.profiling.verdict import verdict

__all__ = [
    "Monitor",
    "Recording",
    "Shares",
    "Steps",
    "communication",
    "forget",
    "input_of",
    "length",
    "mark",
    "marked",
    "nvtx",
    "read",
    "read_samples",
    "record",
    "recording",
    "seconds_of",
    "shares",
    "verdict",
]
