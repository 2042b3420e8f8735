"""Lesson 13 says what is true: its predictions, its runs, its pictures and its numbers."""

import pytest

from dtlib.errors import BadInput
from dtlib.scratch.mesh import Mesh
from dtlib.sim.context_parallel import chunks
from tests.prediction_cases import right_options

from . import expert_load, long_texts, mesh_runs, pictures, published, slow_network
from .bank import sync as bank_sync
from .exercises.deal import deal_chunks
from .exercises.experts import dropped_tokens
from .exercises.groups import groups_of
from .what_if import layout_curve


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("partner", 1, "rank 1"),
        ("partner", 4, "rank 4"),
        ("busiest_axis", 0.5, "less: all gradients of the model go along data"),
        ("busiest_axis", 85, "ten to a hundred times"),
        ("busiest_axis", 192, "more than a hundred times"),
        ("swapped", 0.5, "less time than before"),
        ("swapped", 1, "about as much, because the bytes are the same"),
        ("swapped", 3, "two to four times as much"),
        ("swapped", 7.4, "more than four times as much"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("13", key, value) == [right]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 1, 4), (1, 5, 2)])
def test_the_groups_of_the_exercise_are_the_meshs(sizes):
    data, pipeline, tensor = sizes
    mesh = Mesh(data, pipeline, 1, tensor)
    for rank in range(mesh.ranks):
        for axis, ranks in groups_of(rank, *sizes).items():
            assert ranks in mesh.groups(axis) and rank in ranks


def test_every_answer_that_passes_trains_as_one_process_does():
    """A mesh of three axes, whose sizes differ from the lesson's, and an answer of the bank."""
    sizes = mesh_runs.Sizes(width=12, heads=2, steps=2, layers=2, batch=4, positions=6)
    meshes = [Mesh(data=2, tensor=2), Mesh(pipeline=4)]
    found = mesh_runs.run(meshes, sizes, bank_sync.in_two_messages)
    assert mesh_runs.worst(found) < 1e-11
    for books in found.values():
        assert books.norms[0] == pytest.approx(books.norms[1], rel=1e-12)
    assert {*found} == {"data 2 × tensor 2", "data 2 × tensor 2, sequence", "pipeline 4"}
    assert found["pipeline 4"].sent["tensor"] == found["pipeline 4"].sent["data"] == 0
    # 10 all-reduces of f and g in two blocks, and 3 numbers for each position's loss
    tensor = found["data 2 × tensor 2"].sent["tensor"]
    assert tensor == (10 * 12 + 3) * 2 * 6
    assert found["data 2 × tensor 2"].sent["data"] == found["data 2 × tensor 2"].held


def test_no_steps_are_refused_before_any_rank_starts():
    with pytest.raises(BadInput, match="steps = 0"):
        mesh_runs.Sizes(steps=0)


def test_numbers_of_the_published_runs():
    for one in published.PUBLISHED:
        assert one.data * one.pipeline * one.context * one.tensor == one.gpus
        assert one.batch % one.data == 0
    sent = published.gigabytes()
    assert 80 < sent["tensor"] / sent["data"] < 90
    right = sum(published.seconds().values())
    wrong = sum(published.seconds(published.DATA_INSIDE).values())
    assert right < 3 and 14 < wrong - right < 17  # of 32 s: "half as much again"


def test_pictures_say_what_they_show():
    assert "tensor: [0, 1], [2, 3]" in pictures.draw_groups(Mesh(2, 2, 1, 2)).alt
    alt = pictures.draw_slices([Mesh(pipeline=2, tensor=2), Mesh(data=4)]).alt
    assert "rank 3 has part 0 of 1 of the samples, and part 1 of 2 of layers [1]" in alt


def test_the_sliders_say_what_the_layout_says():
    """GPT-3 on data 8 × pipeline 16 × tensor 8, with the sequences of a step cut to 128."""
    told = layout_curve(2, 3, 4, 0, 3, 3, 7, 0)
    found = published.of_gpt3()
    assert told["curves"]["held by a rank"][3] == told["point"]
    assert f"{found['wire']['data'] / 1e9:.3g} GB along data (across nodes)" in told["says"]
    assert "on 1024 ranks" in told["says"] and "GB along tensor (inside a node)" in told["says"]
    assert "does not fit" in layout_curve(3, 0, 0, 0, 0, 3, 0, 0)["says"]
    assert "across nodes" in layout_curve(2, 0, 0, 0, 4, 3, 0, 0)["says"]


def test_zig_zag_gives_every_rank_the_same_work():
    rows, *_ = long_texts.work(4)
    assert rows == [["neighbouring positions", 4, 8, 12, 16, 16], ["zig-zag", 9, 9, 9, 9, 9]]
    assert deal_chunks(4) == [list(chunks(rank, 4, True)) for rank in range(4)]
    alt = long_texts.draw_ring(3).alt
    assert "neighbouring positions: step 0: 0 (100%), 1 (100%), 2 (100%); step 1: 2 (0%)" in alt
    assert "zig-zag: step 0: 0 (75%), 1 (75%), 2 (75%); step 1: 2 (50%)" in alt
    ring, ulysses = long_texts.sent(8)[0]
    assert ring[1] == 22 and ulysses[1] == 56 and float(ring[2]) < float(ulysses[2])


def test_the_load_of_experts_is_told_as_the_exercise_counts_it():
    load = expert_load.Load([47, 6, 5, 6], [17, 16, 15, 16], (27, 0))
    rows, *_ = expert_load.table(load)
    assert load.capacity == 20 and rows[0] == ["before", 0, 47, 20, 27, 0]
    chosen = [k for k, tokens in enumerate(load.before) for _ in range(tokens)]
    told = sum(row[4] for row in rows[:4]), sum(row[5] for row in rows[:4])
    assert told == dropped_tokens(chosen, 4, expert_load.FACTOR)
    figure = expert_load.draw_load(load)
    assert figure.get_suptitle().endswith("27 are dropped before, 0 after")
    assert "before: [47, 6, 5, 6]" in figure.alt


def test_the_formula_stands_beside_what_was_counted():
    name = slow_network.NAMES[1]
    rows, *_ = slow_network.table([{"way": name, "bytes": 7248.0, "loss": 2.5}])
    assert rows == [[name, "7,248", "7,248", "2.500"]]
