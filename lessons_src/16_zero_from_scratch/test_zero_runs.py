"""The runs of lesson 16: equal to one process where that is so, and the books to the byte."""

import matplotlib
import pytest
import torch
import torch.distributed as dist

from dtlib.learn.wire import WireLog, elements_sent
from dtlib.ranks.dist import reduce_scatter_sum
from dtlib.ranks.launcher import launch
from dtlib.scratch.ring import ring_all_reduce
from dtlib.scratch.zero.schedule import AllGather, Forward, Free

from . import pictures as zero_view
from . import zero_runs
from .exercises import accumulate, norm, schedule, stage1

matplotlib.use("Agg")
SIZES = zero_runs.Sizes(ranks=2, width=8, steps=3)
MAX_NORM = 0.01


def stage0(weights, make_optimizer):
    master = weights.float()
    optimizer = make_optimizer([master])

    def step(gradient):
        master.grad = ring_all_reduce(gradient).float() / dist.get_world_size()
        optimizer.step()
        weights.copy_(master)
        optimizer.zero_grad()

    return step


def not_averaged(weights, make_optimizer):
    optimizer = make_optimizer([weights])

    def step(gradient):
        weights.grad = ring_all_reduce(gradient)
        optimizer.step()
        optimizer.zero_grad()

    return step


def ways():
    update = zero_runs.from_shards(norm.global_norm, 1e9)
    return {
        "stage 0": zero_runs.Flat(stage0),
        "stage 1": zero_runs.Flat(stage1.stage1),
        "stage 2": zero_runs.Flat(update, accumulate.add_gradients),
        "stage 3": zero_runs.Scheduled(schedule.zero3_schedule(SIZES.layers)),
    }


@pytest.fixture(scope="module")
def found():
    return zero_runs.run(ways(), SIZES)


@pytest.fixture(scope="module")
def mixed():
    return zero_runs.run(ways(), SIZES, kinds=["AdamW"], k=2, mixed=True)


def test_every_stage_is_equal_to_one_process(found):
    # fp32, three steps: AdamW divides gradients of 1e-3 by their own size, 1e-7 / 1e-3 times 0.01
    assert zero_runs.worst(found) < 1e-5
    assert {len(far) for books in found.values() for far in books.far.values()} == {3}


def test_bytes_and_elements_are_those_of_the_paper(found, mixed):
    n = SIZES.ranks
    assert [books.bytes_each for books in found.values()] == [16, 8 + 8 / n, 4 + 12 / n, 16 / n]
    formulas = [16, 4 + 12 / n, 2 + 14 / n, 16 / n]
    assert [books.bytes_each for books in mixed.values()] == formulas
    assert mixed["stage 1"].held["fp32_copy"] == 4 / n
    # the norm of stages 2 and 3 is one number more
    sent = [round(books.sent * n / (n - 1), 1) for books in found.values()]
    assert sent == [2, 2, 2, 3]
    assert [round(b.sent * n / (n - 1), 1) for b in mixed.values()] == [2, 2, 3, 6]


def test_a_wrong_way_is_far_from_one_process():
    books = zero_runs.run({"wrong": zero_runs.Flat(not_averaged)}, SIZES)["wrong"]
    assert max(books.far["SGD"]) > 1e-3


def test_the_clip_of_stage_2_is_torchs_and_cuts():
    update = zero_runs.from_shards(norm.global_norm, MAX_NORM)
    way = {"clipped": zero_runs.Flat(update, accumulate.add_gradients)}
    assert zero_runs.worst(zero_runs.run(way, SIZES, clip=MAX_NORM)) < 1e-5
    assert zero_runs.worst(zero_runs.run(way, SIZES)) > 1e-3  # the twin does not clip


def test_whole_layers_line_by_line(found):
    assert found["stage 0"].stairs == []
    assert found["stage 3"].stairs == [1, 1, 0] * 4 + [1, 1, 0, 0] * 4


def counted():
    n, rank = dist.get_world_size(), dist.get_rank()
    logs = []
    calls = (
        lambda: dist.all_reduce(torch.ones(12)),
        lambda: dist.all_gather([torch.ones(4) for _ in range(n)], torch.ones(4)),
        lambda: ring_all_reduce(torch.ones(12)),
        lambda: dist.broadcast(torch.ones(12), 0),
        lambda: reduce_scatter_sum(torch.ones(4), torch.ones(12)),
    )
    for call in calls:
        with WireLog() as log:
            call()
        logs.append(elements_sent(log.messages, n))
    return rank, logs


def test_elements_sent_count_messages_and_collectives_alike():
    for _, logs in launch(counted, ranks=3, device="cpu", timeout=20, show=False):
        assert logs == [16, 8, 16, 8, 8]  # 2·2/3·12, 2·4, as it left, 2/3·12, 2·4


def test_tables_and_pictures_say_what_was_found(found):
    rows, columns, _ = zero_view.bytes_and_elements(found)
    assert rows[1][:6] == ["stage 1", 4, 4, 4, 0, 12] and len(columns) == len(rows[1]) == 7
    rows, columns, _ = zero_view.distances(found)
    assert rows[4][:2] == ["stage 2", "SGD"] and columns[2:] == ["step 1", "step 2", "step 3"]
    lines = schedule.zero3_schedule(SIZES.layers)
    pairs = {"mine": (lines, found["stage 3"])}
    assert zero_view.stairs(pairs)[0][0][3].startswith("1 1 0 1 1 0")
    ticks = zero_view.draw_stairs(pairs).axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks][:3] == ["AllGather 0", "Forward 0", "Free 0"]
    figure = zero_view.draw_held({"fp32": found})
    assert [text.get_text() for text in figure.axes[0].texts][:4] == ["16", "12", "10", "8"]
    assert "fp32, stage 1: 12; " in figure.alt
    assert "stage 3 also shard r of the weights" in zero_view.draw_stages().alt
    assert "12 bytes of optimizer state" in zero_view.draw_question().alt
    assert "rank r shard r of the sum" in zero_view.draw_stage1().alt
    assert zero_view.held({"fp32": found})[0][3] == ["fp32", "stage 3", 2, 2, 4, 0, 8]
    assert zero_view.paper([[4, (52.5, 52.5)]])[0] == [[4, "52.500 | 52.5"]]
    assert [zero_view.word(x) for x in (AllGather(0), Forward(1), Free(2))] == [
        "AllGather 0", "Forward 1", "Free 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "printed", "same"),
    [(41.25, 41.3, True), (21.5625, 21.6, True), (0.1172, 0.12, True), (30.25, 30.1, False)],
)
def test_printed_with_some_digits_cut_off(value, printed, same):
    assert zero_view.as_printed(value, printed) is same
