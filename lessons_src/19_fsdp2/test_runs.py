"""The runs of lesson 19: equal to one process, and the books to the byte."""

import matplotlib
import pytest
from torch.distributed.fsdp import fully_shard

from . import fsdp_runs, muon_runs, pictures, what_if
from .bank import accumulate as bank_accumulate
from .bank import muon as bank_muon
from .bank import units as bank_units
from .exercises import accumulate, muon, units

matplotlib.use("Agg")
SIZES = fsdp_runs.Sizes(layers=3, width=16, words=16, context=8)


def one_call(model, mesh):
    fully_shard(model, mesh=mesh)


def in_pairs(model, mesh):
    for block in model.h:
        fully_shard(block, mesh=mesh, reshard_after_forward=2)
    fully_shard(model, mesh=mesh)


def not_averaged(model, mesh):
    for block in model.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in (*model.h, model):
        module.set_gradient_divide_factor(2.0)
        module.set_force_sum_reduction_for_comms(True)


@pytest.fixture(scope="module")
def found():
    ways = {"one call": one_call, "per block": units.shard, "True": bank_units.bottom_up,
            "2": in_pairs, "wrong": not_averaged}  # fmt: skip
    return fsdp_runs.run(ways, SIZES)


def test_each_way_is_equal_to_one_process_and_a_wrong_one_is_far(found):
    assert max(found[name].far for name in found if name != "wrong") < 1e-5
    assert found["wrong"].far > 1e-3
    assert {len(books.losses) for books in found.values()} == {2}


def test_what_is_whole_and_sent_is_what_the_formulas_say(found):
    root = SIZES.psi - SIZES.layers * SIZES.block
    for name, group in (("True", 0), ("2", 2)):
        shape = (root, SIZES.block, SIZES.layers)
        assert found[name].whole == 4 * what_if.whole_weights(*shape, group)
        assert found[name].sent["all_gather"] == 4 * what_if.gathered(*shape, 4, group)
    one = found["one call"]
    assert one.whole == 4 * SIZES.psi and one.bytes_sent == 2 * 3 / 4 * 4 * SIZES.psi
    assert {sum(books.held.values()) for books in found.values()} == {4 * SIZES.psi}


def test_the_trace_has_lesson_16s_schedule(found):
    words = "Groot Froot G0 F0 G1 F1 G2 F2 G2 Broot G1 B2 R2 G0 B1 R1 B0 R0 Rroot"
    assert pictures.words(found["per block"].events) == words
    assert pictures.most_units(found["per block"].events) == 2
    bars = pictures.stretches(found["per block"].events, "h.1")
    assert [kind for kind, _, _ in bars] == ["communication", "weights"] * 2
    forward = pictures.until(found["per block"].events, "backward")
    assert pictures.words(forward).endswith("F2 G2")


def test_pictures_and_tables_say_what_was_found(found):
    two = {name: found[name] for name in ("one call", "per block")}
    figure = pictures.draw_traces(two)
    assert figure.get_suptitle() == (
        "one call: everything is whole at once; per block: 2 of 4 units are whole"
    )
    assert "one call: Groot Froot Broot Rroot." in figure.alt
    rows, columns, _ = pictures.held_and_sent(two, SIZES)
    assert rows[0][0] == "one call" and rows[1][4:6] == [7, 4] and len(columns) == len(rows[0])
    rows, *_ = pictures.reshard({"True": found["True"], "2": found["2"]}, SIZES)
    assert all(row[1] == row[2] and row[3] == row[4] for row in rows)
    assert "2: whole" in pictures.draw_reshard({"True": found["True"], "2": found["2"]}, SIZES).alt


def blocks_stay_whole(model, mesh):
    for block in model.h:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)


def all_whole_until_the_last(model, parts):
    for i, (x, y) in enumerate(parts):
        model.set_requires_gradient_sync(i == len(parts) - 1)
        model.set_reshard_after_backward(i == len(parts) - 1)
        (model(x, y) / y.numel()).backward()


@pytest.mark.slow
def test_weights_that_stay_whole_are_gathered_once_a_step():
    _, once = fsdp_runs.accumulated(blocks_stay_whole, all_whole_until_the_last, SIZES, 4)
    assert once["calls"] == {"all_gather": 4, "reduce_scatter": 4}


@pytest.mark.slow
def test_right_answers_of_another_kind_keep_the_lessons_promises():
    for answer in (accumulate.accumulate, *bank_accumulate.ALSO_RIGHT[:1]):
        each, once = fsdp_runs.accumulated(one_call, answer, SIZES, 4)
        assert once["sent"]["reduce_scatter"] == each["sent"]["reduce_scatter"] / 4
        assert each["waiting"] < 2 * SIZES.psi < 4 * SIZES.psi <= once["waiting"]
    for answer in (muon.muon_step, *bank_muon.ALSO_RIGHT):
        far, sent = muon_runs.train_both(answer, SIZES)
        assert far < 1e-4 and "12 matrices" in sent
