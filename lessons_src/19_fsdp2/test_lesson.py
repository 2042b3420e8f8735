"""Lesson 19 says what is true: its predictions, its record, its formulas and its runs."""

import json

import pytest

from dtlib.learn import source
from dtlib.learn.recorded import ABOUT, recorded
from dtlib.sim import traffic
from tests.prediction_cases import right_options

from . import what_if
from .exercises.moves import moves, size

LESSON = source.find("19")


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("per_block_sends", 0.9, "fewer bytes"),
        ("per_block_sends", 1.0, "as many bytes, in smaller messages"),
        ("per_block_sends", 1.475, "about half as many again"),
        ("per_block_sends", 4, "as many times more as there are blocks"),
        ("bf16_held", 0.5, "half as many bytes"),
        ("bf16_held", 0.75, "three quarters"),
        ("bf16_held", 1, "exactly as many"),
        ("bf16_held", 1.25, "more, with an fp32 copy besides"),
        ("between_nodes", 0, "nothing"),
        ("between_nodes", 0.45, "less than half"),
        ("between_nodes", 1, "about as much"),
        ("between_nodes", 2, "more, since two copies have to be kept equal"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("19", key, value) == [right]


def test_the_record_is_that_of_the_lesson():
    record = recorded("19_fsdp2")
    assert set(record) == {"beside"} and all(record.about[key] for key in ABOUT)
    assert "deepspeed" in record.about["versions"]
    fsdp2, zero3, frugal = record["beside"].values()
    steps = zip(*(way["losses"] for way in record["beside"].values()), strict=True)
    assert all(max(step) - min(step) < 1e-5 for step in steps)
    assert frugal["calls"]["all_gather"] == 54 > fsdp2["calls"]["all_gather"] == 9
    assert zero3["sent"]["all_gather"] < frugal["sent"]["all_gather"] == 2 * 3 * psi_of(frugal)
    psi = zero3["parameters"]
    # the lesson's names for what DeepSpeed holds beside a shard of each: a copy and a bucket
    assert zero3["held"]["fp32_copy"] == psi and zero3["held"]["gradients"] == 2 * psi
    assert fsdp2["held"]["fp32_copy"] == 0
    text = (LESSON.room / "records/19_fsdp2.json").read_text()
    assert not any(word in text for word in ("/tmp/", "/work", "/home/", "/root"))
    assert not json.loads(text)["about"]["commit"].endswith("dirty")


def psi_of(way):
    """Ψ, whose four bytes go round four ranks in a pass: (N-1)/N of them are 3Ψ bytes."""
    return way["parameters"]


@pytest.mark.parametrize(("group", "passes"), [(0, 2), (1, 1), (4, 2)])
def test_gathers_are_those_of_the_simulator(group, passes):
    root, block, blocks, ranks = 8, 16, 4, 4
    psi = root + blocks * block
    rows = traffic.stage_3(psi, ranks, 1, 1, 1, 1, root=root)[:passes]
    assert what_if.gathered(root, block, blocks, ranks, group) == sum(row["wire"] for row in rows)


def test_the_sliders_trade_memory_for_bytes():
    told = [what_if.reshard(13, 40, 3, after, 1) for after in (0, 1, 2)]
    memory = [answer["point"][1] for answer in told]
    assert memory == sorted(memory) and told[0]["point"][0] == 64
    assert memory[2] == pytest.approx(16 * 13 / 64 + 2 * 13)  # all weights whole, in bf16
    one = what_if.reshard(13, 1, 3, 0, 1)
    assert one["point"][1] == memory[2]


@pytest.mark.parametrize("rows", [1, 5, 8, 10, 13])
@pytest.mark.parametrize(("saved", "loaded"), [(4, 2), (2, 4), (3, 4), (4, 3), (1, 5)])
def test_moves_fill_every_row_once_and_with_the_right_one(rows, saved, loaded):
    each = -(-rows // saved)
    found = []
    for rank in range(loaded):
        shard = [None] * size(rows, loaded, rank)
        for file, start, stop, to in moves(rows, saved, loaded, rank):
            assert shard[to : to + stop - start] == [None] * (stop - start)
            shard[to : to + stop - start] = range(file * each + start, file * each + stop)
        found += shard
    assert found == list(range(rows))
