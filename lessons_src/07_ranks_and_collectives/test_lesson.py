"""Lesson 07 says what is true: its table, its predictions, its quiz, its sentences."""

import re

import pytest
import torch
import torch.distributed as dist

from dtlib import launch
from dtlib.learn import source
from dtlib.learn.wire import WireLog
from dtlib.scratch.ring import all_gather_steps, reduce_scatter_steps, tree_all_reduce
from dtlib.sim.collectives import ring_all_reduce_time
from tests.prediction_cases import right_options

from .exercises import ring_cost, tree_cost
from .halving import halving_doubling
from .ping_pong import ping_pong
from .what_if import halving_doubling_time, tree_all_reduce_time, two_level_time

LESSON = source.find("07")


def test_the_trace_table_is_step_0_of_the_ring():
    rows = re.findall(r"rank (\d) \| (\d) \| (\d) \| (\d+) \|", LESSON.text)
    assert len(rows) == 3
    for rank, send, receive, holds in (map(int, row) for row in rows):
        step = reduce_scatter_steps(rank, 3)[0]
        assert (send, receive) == (step.send, step.receive)
        assert holds == 10**rank + 10 ** ((rank - 1) % 3)
    finished = [all_gather_steps(rank, 3)[0].send for rank in range(3)]
    assert finished == [1, 2, 0]  # "rank 0 has finished chunk 1, rank 1 chunk 2, rank 2 chunk 0"


@pytest.mark.parametrize("n", [1, 2, 3, 6, 64])
def test_the_times_are_those_of_the_course(n):
    given = 4e8, n, 10e-6, 1e-10
    assert ring_cost.ring_time(*given) == pytest.approx(ring_all_reduce_time(*given))
    assert tree_cost.tree_time(*given) == pytest.approx(tree_all_reduce_time(*given))


def bytes_of_a_tree():
    with WireLog() as log:
        tree_all_reduce(torch.ones(100))
    return log.bytes_sent


def test_the_tree_of_the_course_sends_what_the_formula_counts():
    """Rank 0 never rests: it hears from each of its children, and sends each of them the sum."""
    sent = launch(bytes_of_a_tree, ranks=4, timeout=20, show=False)
    assert 2 * sent[0] == tree_cost.tree_time(400, 4, 0.0, 1.0)
    assert sum(sent) == 2 * 3 * 400  # all but one send up, and all but one are sent to


@pytest.mark.parametrize(
    ("key", "value"),
    [("sent_per_rank", 1.5), ("who_wins", "tree for 4 kB and ring for 400 MB")],
)
def test_one_option_of_a_prediction_is_right(key, value):
    right = right_options("07", key, value)
    assert len(right) == 1
    assert right[0] in ("1.5 S", value)


def test_ping_pong_times_every_size():
    for times in launch(ping_pong, [1, 1000], 2, ranks=2, timeout=20, show=False):
        assert len(times) == 2
        assert all(t > 0 for t in times)


def halved(size):
    x = torch.arange(1.0, size + 1) * 10 ** dist.get_rank()
    with WireLog() as log:
        halving_doubling(x)
    return x, len(log.sent), log.bytes_sent


@pytest.mark.parametrize(("n", "size"), [(1, 3), (2, 5), (4, 8), (4, 7), (4, 1)])
def test_halving_and_doubling_sums_in_few_steps_and_few_bytes(n, size):
    for x, messages, sent in launch(halved, size, ranks=n, timeout=20, show=False):
        assert x.tolist() == [(k + 1) * sum(10.0**r for r in range(n)) for k in range(size)]
        assert messages == halving_doubling_time(1, n, 1.0, 0.0)
        if size % n == 0:
            assert sent == halving_doubling_time(4 * size, n, 0.0, 1.0)


def test_two_levels_by_hand():
    # 8 bytes on 2 nodes of 4: 2·3/4·8 inside at 1 s a byte, and 2·1/2·2 between at 10
    assert two_level_time(8, 2, 4, 1.0, 10.0) == pytest.approx(12 + 20)
