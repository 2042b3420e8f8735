"""Lesson 11 says what is true: its predictions, its numbers, and what its formulas give."""

from __future__ import annotations

import pytest

from dtlib.learn import source
from dtlib.sim.states import share
from dtlib.sim.tensor_parallel import parameters
from tests.prediction_cases import right_options

from . import links, overlap, tp_runs
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
        ("two_nodes", 0.1, "a tenth: messages are small"),
        ("two_nodes", 1, "about as long"),
        ("two_nodes", 2.1, "two to three times as long"),
        ("two_nodes", 10, "ten times as long"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("11", key, value) == [right]


def test_a_run_on_other_numbers_keeps_the_lessons_promises():
    sizes = tp_runs.Sizes(ranks=3, width=12, heads=6, steps=2, positions=6)
    found = tp_runs.run(sizes)
    assert tp_runs.worst(found) < 1e-11
    plain, sequence = found["tensor"], found["sequence"]
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


def test_sending_passes_computing_between_one_node_and_two():
    rows = {row.ranks: row for row in links.block_times([2, 4, 8, 16])}
    assert rows[8].sending < 0.2 * rows[8].computing
    assert 1.5 < rows[16].sending / rows[16].computing < 4
    assert rows[2].computing == pytest.approx(8 * rows[16].computing)
    at = inside_a_node(12288, 11, 4, 3, 50)
    assert at["point"] == [16, pytest.approx(rows[16].sending)]
    assert "2 nodes" in at["says"] and "1 node " in inside_a_node(12288, 11, 3, 3, 50)["says"]


@pytest.mark.parametrize(("computing", "sending"), [(4.0, 3.0), (1.0, 6.0), (2.0, 0.0)])
def test_pieces_hide_all_but_what_the_longer_lane_takes(computing, sending):
    n = 4
    end = max(span.end for span in overlap.piece_by_piece(computing, sending, n))
    step, piece = sending / (n - 1), computing / n
    # The last piece cannot start before it is there, and each waits for the one before it.
    assert end == pytest.approx(max(computing, sending + piece, piece + (n - 1) * max(step, piece)))
    assert end <= sending + computing
