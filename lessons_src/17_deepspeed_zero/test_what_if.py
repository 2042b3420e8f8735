"""What precision and sharding save, each alone: equal to the model of the states."""

import pytest

from dtlib.sim import states

from .what_if import held, savings


@pytest.mark.parametrize(("precision", "recipe"), [("fp32", "fp32"), ("16 bits", "mixed")])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 4, 64])
def test_states_are_those_of_the_paper(precision, recipe, stage, ranks):
    strategy = ("ddp", "zero1", "zero2", "zero3")[stage]
    want = states.model_states(6400, ranks, strategy, recipe, kept="paper")["device"]
    assert held(6400, ranks, stage, precision, 0) == sum(want.values())


def test_a_published_table_follows_from_its_first_row():
    """13.62 GB of which 16 · 355M are states: half of the rest, and the states, are 9.64 GB."""
    activations = 13.62e9 - 16 * 355e6
    assert held(355e6, 1, 1, "16 bits", activations) / 1e9 == pytest.approx(9.64, abs=0.015)


def test_on_one_rank_sharding_saves_nothing_and_labels_stay():
    one, many = savings(355, 7.94, 2, 1), savings(355, 7.94, 3, 64)
    assert "16 bits alone save 29 %, stage 2 alone 0 %, both 29 %" in one["says"]
    assert one["point"][0] == 1 and list(one["curves"]) == list(many["curves"])
    assert many["curves"]["both"][-1][1] < many["curves"]["16 bits"][-1][1]
