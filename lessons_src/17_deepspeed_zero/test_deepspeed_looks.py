"""DeepSpeed itself does what the lessons show, and the ledger weighs its engines."""

import pytest

from dtlib import launch
from dtlib.scratch.loss_scaling import LossScaler
from dtlib.strategies import operators as ops

from .deepspeed_ablation import ablate
from .deepspeed_looks import loss_scales, saved, verdicts

pytestmark = pytest.mark.skipif(not ops.deepspeed_is_here(), reason="DeepSpeed is not installed")
BASELINE = {"precision": "fp32", "optimizer": "plain", "stage": 0}
GATHER = {
    "stage3_gather_16bit_weights_on_model_save": True,
    "stage3_param_persistence_threshold": 0,
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_batch_that_does_not_fit_is_refused_and_accumulation_need_not_divide():
    """Field bug 3.03; "micro_batches: 4 is not divisible by num_gpus" does not exist."""
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    three, one = (dict(zip(keys, fields, strict=True)) for fields in ((16, 4, 1), (16, 4, 4)))
    said = launch(verdicts, three, one, ranks=1, device="cpu")[0]
    assert said[0].endswith("16 != 4 * 1 * 1") and said[1] == "accepted"


def look():
    def collect(mine, shapes):
        from .exercises.whole_weights import whole_weights

        return whole_weights(mine, shapes)

    fp16 = {"initial_scale_power": 24, "loss_scale_window": 4}
    return saved("defaults"), saved("gathered", collect, **GATHER), loss_scales(10, **fp16)


def test_saving_under_stage_3_and_loss_scales():
    plain, gathered, scales = launch(look, ranks=2, device="cpu", timeout=60)[0]
    assert (plain["whole"], plain["state_dict"], plain["written"]) == (5, 98_816, False)
    assert (gathered["whole"], gathered["state_dict"]) == (0, 0)
    assert gathered["written"] and gathered["rebuilt"] and gathered["collected"]
    scaler = LossScaler(2.0**24, growth_interval=1000, hysteresis=2)
    assert scales[0] == (scaler.value, True) and scales[1][0] == scales[0][0]
    assert scales[2][0] == scales[0][0] / 2


def test_ablation_weighs_every_engine():
    changes = [{"precision": "bf16"}, {"optimizer": "fused"}, {"stage": 2}, {"stage": None}]
    settings = [BASELINE, *({**BASELINE, **change} for change in changes)]
    plain, bf16, fused, stage_2, alone = launch(
        ablate, settings, 64, 1, ranks=1, device="cpu", timeout=60
    )[0]
    psi = plain["bytes"]["parameters"] // 4
    states = ("parameters", "gradients", "optimizer", "fp32_copy")
    each = [
        [result["bytes"][kind] / psi for kind in states] for result in (plain, bf16, fused, stage_2)
    ]
    assert alone["bytes"] == plain["bytes"]
    assert each[0] == each[2] == [4, 4, 8, 0]
    assert each[1] == [2, 2, 8, 4]
    assert each[3][0] == 4 and each[3][2:] == [8, 4]
    assert 0.4 < bf16["bytes"]["activations"] / plain["bytes"]["activations"] < 0.6
    assert [len(result["seconds"]) for result in (plain, stage_2)] == [1, 1]
