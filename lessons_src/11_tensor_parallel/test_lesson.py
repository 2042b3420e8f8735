"""Lesson 11 says what is true: its predictions, its numbers, and what its formulas give."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.learn import source
from dtlib.learn.wire import WireLog, elements_sent
from dtlib.ranks.launcher import launch
from dtlib.sim.states import share
from dtlib.sim.tensor_parallel import parameters
from tests.prediction_cases import right_options

from . import links, overlap, tp_runs
from .exercises.cutting import Operations, facts
from .what_if import inside_a_node

LESSON = source.find("11")


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("messages", 0, "none: each rank computes its part"),
        ("messages", 1, "one"),
        ("messages", 2, "two, one after each matrix"),
        ("messages", 4, "one for each rank"),
        ("sequence_sends", 0.5, "half as much"),
        ("sequence_sends", 1.03, "practically as much"),
        ("sequence_sends", 1.5, "one and a half times as much"),
        ("sequence_sends", 2, "twice as much"),
        ("two_nodes", 0.15, "a tenth: messages are small"),
        ("two_nodes", 0.5, "about half as long"),
        ("two_nodes", 1.2, "about as long"),
        ("two_nodes", 2.6, "two to three times as long"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("11", key, value) == [right]


def test_a_run_on_other_numbers_keeps_the_lessons_promises():
    sizes = tp_runs.Sizes(ranks=3, width=12, heads=6, steps=2, positions=6)
    found = tp_runs.run(sizes)
    assert tp_runs.worst(found) < 1e-11
    plain, sequence = found["tensor"], found["sequence"]
    assert plain.mlp == (["all_reduce"], ["all_reduce"])
    assert plain.all_reduces == 4 * sizes.layers + 5
    edges = 4 * sizes.layers + 2
    assert sequence.calls == {"all_gather": edges, "reduce_scatter": edges, "all_reduce": 4}
    cut, whole = parameters(sizes.layers, sizes.width, sizes.positions, sizes.words, sizes.ranks)
    assert plain.held == cut + whole and plain.parameters == plain.cut + whole
    for way in found:
        (_, measured, predicted, _) = next(
            row for row in tp_runs.activations(found, sizes)[0] if row[0] == way
        )
        assert measured == predicted


def test_one_matrix_of_gpt3_is_as_large_as_the_lesson_says():
    assert round(12 * 12288**2 / 1e9, 1) == 1.8 and round(2 * 12 * 12288**2 / 1e9, 1) == 3.6
    assert share(50257, 4) * 4 > 50257


def test_sending_passes_computing_between_two_nodes_and_four():
    rows = {row.ranks: row for row in links.block_times([2, 4, 8, 16, 32])}
    size, inside, between = 2 * 2048 * 12288, 7 / 8 / 450e9, 1 / 2 / 8 / 50e9
    assert rows[8].sending == pytest.approx(4e3 * (2 * size * inside + 14 * 5e-6))
    more = 4e3 * (2 * size * between + 2 * 15e-6)  # an eighth of the tensor, over an adapter
    assert rows[16].sending == pytest.approx(rows[8].sending + more)
    assert right_options("11", "two_nodes", rows[16].sending / rows[16].computing) == [
        "about half as long"
    ]
    # The other options' reasons: inside a node, on four nodes, and with one adapter for 8 GPUs.
    assert rows[8].sending < 0.25 * rows[8].computing
    assert 0.75 < rows[32].sending / rows[32].computing < 1.5
    assert 0.75 < rows[16].shared / rows[16].computing < 1.5
    # "Two nodes are slower than one", if the GPUs share an adapter.
    assert rows[16].computing + rows[16].shared > rows[8].computing + rows[8].shared
    ring = 4e3 * 2 * 15 * (15e-6 + size / 16 / 50e9)  # one ring through all GPUs
    assert 1.5 < ring / rows[16].computing < 3
    assert rows[2].computing == pytest.approx(8 * rows[16].computing)
    assert "32 ranks" in links.draw(list(rows.values())).get_suptitle()
    at = inside_a_node(12288, 11, 4, 3, 50)
    assert at["point"] == [16, pytest.approx(rows[16].sending)]
    assert "2 nodes" in at["says"] and "1 node " in inside_a_node(12288, 11, 3, 3, 50)["says"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranks": 1}, "ranks = 1 cuts nothing"),
        ({"ranks": 8}, "ranks = 8 does not divide 12 heads"),
        ({"ranks": 5, "heads": 10, "width": 40}, "ranks = 5 does not divide 24 positions"),
        ({"width": 50}, "heads = 12 does not divide width = 50"),
        ({"steps": 45}, "steps = 45 is not between 1 and 20"),
        ({"steps": 0}, "steps = 0 is not between 1 and 20"),
    ],
)
def test_what_cannot_be_cut_is_refused_in_a_sentence(given, said):
    with pytest.raises(BadInput, match=said):
        tp_runs.Sizes(**given)


@pytest.mark.parametrize(("computing", "sending"), [(4.0, 3.0), (1.0, 6.0), (2.0, 0.0)])
def test_pieces_hide_all_but_what_the_longer_lane_takes(computing, sending):
    n = 4
    end = max(span.end for span in overlap.piece_by_piece(computing, sending, n))
    step, piece = sending / (n - 1), computing / n
    # The last piece cannot start before it is there, and each waits for the one before it.
    assert end == pytest.approx(max(computing, sending + piece, piece + (n - 1) * max(step, piece)))
    assert end <= sending + computing


def by_dtensor() -> tuple[int, int, float]:
    """Operations and messages of exercise 1, answered with DTensors."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    x, a, b = torch.ones(2, 4), torch.ones(4, 6), torch.ones(6, 4)
    places = ([Replicate()], [Shard(1)], [Shard(0)])
    dx, da, db = (
        distribute_tensor(t, mesh, place) for t, place in zip((x, a, b), places, strict=True)
    )
    with WireLog() as log, Operations() as done:
        y = (F.gelu(dx @ da) @ db).redistribute(placements=[Replicate()]).to_local()
    assert torch.allclose(y, F.gelu(x @ a) @ b)
    with Operations() as alone:
        F.gelu(x @ a) @ b
    return done.total, alone.total, elements_sent(log.messages, 2)


def test_an_answer_by_dtensor_is_measured_by_what_its_rank_does():
    assert launch(by_dtensor, ranks=2, timeout=60, show=False) == [(192 // 2, 192, 8.0)] * 2


def test_a_sentence_shows_a_number_that_is_wrong_and_tells_it_from_the_right_one():
    right = [1.0, 2.0, 3.0]
    told = facts([right, [1.0, 2.5, 3.0]], [right, right])
    assert (told["rank"], told["got"], told["want"], told["others"]) == (1, "2.5", "2", "2")
    told = facts([[1.0, 2.00003, 3.0], right], [right, right])
    assert (told["got"], told["want"]) == ("2.00003", "2")
