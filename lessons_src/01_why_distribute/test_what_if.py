"""The envelope agrees with the exact formulas beside it, and with what runs really took."""

import math

import pytest

from dtlib.sim import flops, hardware, states

from . import what_if as training_run


def test_days_are_flop_over_speed():
    """6 FLOP · 1e9 · 1.728e8 is what 6 TFLOP/s does in two days."""
    assert training_run.training_days(1e9, 1.728e8, 1, 6, 1) == pytest.approx(2, rel=1e-12)
    assert training_run.training_days(1e9, 1.728e8, 4, 6, 0.5) == pytest.approx(1, rel=1e-12)
    seconds = flops.kaplan(7e9, 2e12) / hardware.peak("a100-80", "bf16") / 0.4
    found = training_run.training_days(7e9, 2e12, 1, 312, 0.4)
    assert found * 86_400 == pytest.approx(seconds, rel=1e-12)


def test_gpu_hours_of_published_runs():
    """LLaMA 65B: 380 tokens/s/GPU, 21 days on 2048 A100 (arXiv:2302.13971); Llama 2's card."""
    hours = 1.4e12 / 380 / 3600
    mfu = training_run.run_mfu(65.2e9, 1.4e12, hours, 312)
    assert mfu == pytest.approx(6 * 65.2e9 * 380 / 312e12, rel=1e-12)
    days = training_run.training_days(65.2e9, 1.4e12, 2048, 312, mfu)
    assert round(days) == 21
    assert training_run.gpu_hours(65.2e9, 1.4e12, 312, mfu) == pytest.approx(24 * 2048 * days)
    assert training_run.run_mfu(6.738e9, 2e12, 184_320, 312) == pytest.approx(0.39055, abs=5e-5)


@pytest.mark.parametrize(("stage", "strategy"), list(enumerate(["ddp", "zero1", "zero2", "zero3"])))
@pytest.mark.parametrize("ranks", [1, 4, 64])
def test_states_are_those_of_the_paper(stage, strategy, ranks):
    placed = states.model_states(64_000, ranks, strategy, "mixed", kept="paper")
    held = sum(sum(kinds.values()) for kinds in placed.values())
    assert training_run.states_gb(64_000, stage, ranks) * 1e9 == pytest.approx(held, rel=1e-12)


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("memory", [4, 5, 10, 17, 80, 85.9])
@pytest.mark.parametrize("activations", [0, 1, 5])
@pytest.mark.parametrize("parameters", [0.3e9, 1e9, 7e9])
def test_the_smallest_world_holds_and_one_less_does_not(stage, memory, activations, parameters):
    found = training_run.smallest_world(parameters, stage, memory, activations)

    def needed(ranks):
        return training_run.states_gb(parameters, stage, ranks) + activations

    if found is None:
        # 1e-9: what a division in floating point may add to an exact fit
        assert needed(10**9) > memory - 1e-6
    else:
        assert needed(found) <= memory * (1 + 1e-9)
        assert found == 1 or needed(found - 1) > memory


def test_an_exact_fit_counts():
    assert training_run.smallest_world(1e9, 3, 4, 0) == 4
    assert training_run.smallest_world(1e9, 0, 16, 0) == 1
    assert training_run.smallest_world(1e9, 3, 5, 5) is None
    # 0.3 − 0.1 is a little less than 0.2 in binary, and 1.6 / 0.2 a little more than 8
    assert training_run.smallest_world(0.1e9, 3, 0.3, 0.1) == 8


@pytest.mark.parametrize("gpus", [1, 64, 4096])
@pytest.mark.parametrize("mfu", [5, 40, 70])
def test_the_sliders_answer(gpus, mfu):
    found = training_run.envelope(7, 2, gpus, mfu, 312, 2)
    assert list(found["curves"]) == ["days"]
    assert found["point"] in found["curves"]["days"]
    for n, days in found["curves"]["days"]:
        expected = training_run.training_days(7e9, 2e12, n, 312, mfu / 100)
        assert n >= 1 and math.isclose(days, expected)
    assert "112 GB" in found["says"]
