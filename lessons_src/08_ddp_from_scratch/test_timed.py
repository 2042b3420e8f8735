"""Timelines over a clock: what is hidden, what is exposed, and that steps are measured."""

import pytest
import torch
import torch.distributed as dist

from dtlib.ranks.launcher import launch

from .timed import ClockLink, Timeline, step_times, timeline


@pytest.mark.parametrize(
    ("rows", "hidden", "done"),
    [
        ([], 0.0, 10.0),
        ([(1, 1, 5)], 1.0, 10.0),
        ([(1, 1, 5), (10, 10, 14)], 0.5, 14.0),
        ([(4, 8, 12)], 0.5, 12.0),
        ([(11, 12, 14)], 0.0, 14.0),
    ],
)
def test_what_passes_before_backward_ends_is_hidden(rows, hidden, done):
    run = Timeline(10.0, rows)
    assert (run.hidden, run.done) == (hidden, done)


def messages_of_a_clock():
    link, seen = ClockLink(alpha=1.0, beta=0.5), torch.full((4,), 10.0 ** dist.get_rank())
    for _ in range(2):
        link.all_reduce(seen).wait()
    return link.rows, seen


def test_a_clock_sends_one_message_after_the_other_and_sums_nothing():
    for rank, (rows, seen) in enumerate(launch(messages_of_a_clock, ranks=2, device="cpu")):
        assert seen.tolist() == [10.0**rank] * 4
        # 2 (N - 1) (alpha + beta S / N), of 16 bytes
        assert [round(end - begin, 6) for _, begin, end in rows] == [10.0, 10.0]
        assert rows[1][1] == rows[0][2] > rows[1][0]


def runs():
    def after(model, all_reduce):
        return lambda: [all_reduce(p.grad).wait() for p in model.parameters()]

    def nothing(way, model):
        return lambda: None

    return timeline(after, 4, 2, 3, 1e-3, 1e-9), step_times(nothing, ["a", "b"], 4, 2, 1)


def test_what_is_sent_after_backward_is_not_hidden():
    line, times = launch(runs, ranks=2, device="cpu")[0]
    assert len(line.rows) == 8
    assert line.hidden == 0.0
    assert line.done > line.backward > 0
    assert list(times) == ["a", "b"]
    assert [len(turns) for turns in times.values()] == [1, 1]
    assert min(map(min, times.values())) > 0
