"""The timer of steps: it waits for the device, and warm-up never enters a timing."""

import pytest

from dtlib.errors import BadInput
from dtlib.training.record import StepTimer


class FakeDevice:
    """A device with a queue: a launch takes 1 ms, the work 100 ms, done only when waited for."""

    def __init__(self) -> None:
        self.now, self.queued, self.waits = 0, 0, 0

    def launch(self) -> None:
        self.now += 1
        self.queued += 100

    def synchronize(self) -> None:
        self.waits += 1
        self.now += self.queued
        self.queued = 0


# field bug 8.01
def test_timer_waits_for_the_device():
    device = FakeDevice()
    naive = StepTimer(0, clock=lambda: device.now)
    naive.start()
    device.launch()
    naive.stop()
    assert naive.times == [1]  # the launch alone: what the timer must not report

    device = FakeDevice()
    timer = StepTimer(0, clock=lambda: device.now, synchronize=device.synchronize)
    timer.start()
    device.launch()
    timer.stop()
    assert timer.times == [101]
    assert device.waits == 2


def test_timer_leaves_out_work_from_before_its_start():
    device = FakeDevice()
    device.launch()
    with StepTimer(0, clock=lambda: device.now, synchronize=device.synchronize) as timer:
        device.launch()
    assert timer.times == [101]


def test_events_in_the_queue_are_waited_for_only_when_the_times_are_read():
    device = FakeDevice()

    def seconds(begin: int, end: int) -> int:
        device.synchronize()
        return end - begin

    timer = StepTimer(1, clock=lambda: device.now + device.queued, seconds=seconds)
    for _ in range(3):
        with timer:
            device.launch()
    assert (device.now, device.waits) == (3, 0)
    assert timer.times == [101, 101, 101]
    assert timer.timed == [101, 101] and device.waits == 3  # each is read once


def timed(times: list[float], warmup: int) -> StepTimer:
    now = [0.0]
    timer = StepTimer(warmup, clock=lambda: now[0])
    for seconds in times:
        with timer:
            now[0] += seconds
    return timer


# field bug 8.02
def test_warm_up_never_enters_a_timing():
    timer = timed([10, 1, 1, 1, 1], warmup=1)
    assert timer.median() == 1.0
    assert timer.columns(32, "images/s") == {
        "warmup_steps": 1, "timed_steps": 4, "step_time_s": 1.0, "throughput": 32.0,
        "throughput_unit": "images/s",
    }  # fmt: skip


def test_fewer_steps_than_warm_up_is_an_error_and_no_number():
    timer = timed([1, 1, 1], warmup=5)
    with pytest.raises(BadInput, match=r"of 3 steps, the first 5 .* at least 6 steps"):
        timer.median()
    assert timer.columns(32, "images/s")["step_time_s"] is None
    assert timer.columns(32, "images/s")["throughput"] is None


def test_step_that_raises_is_not_timed():
    timer = StepTimer(0)
    with pytest.raises(ZeroDivisionError), timer:
        _ = 1 / 0
    assert timer.times == []
