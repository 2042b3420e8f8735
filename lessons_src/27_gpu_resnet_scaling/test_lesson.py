"""Lesson 27 says what is true: its predictions, its published numbers, its recorded curves."""

import pytest
import torch

from dtlib.learn import source
from dtlib.learn.recorded import recorded
from dtlib.models.resnet import resnet18
from dtlib.sim import hardware
from dtlib.sim.flops import resnet_step
from dtlib.sim.tensors import resnet_convolutions
from tests.prediction_cases import right_options

from . import launches, pictures
from .exercises.launches import share_of_peak

LESSON = source.find("27")


def test_the_flop_of_a_picture_are_those_of_the_formula() -> None:
    convolutions = resnet_convolutions(64)
    step = resnet_step(1, convolutions, 512)
    assert step == 3_328_997_376  # what torch's counter gave for resnet18 and one picture
    assert LESSON.sidecar["predictions"]["flop"]["close"] == 0.05


@pytest.mark.parametrize(
    "measured",
    [
        "less accurate, after a sixteenth of the steps",
        "as accurate: it has seen the same pictures",
    ],
)
def test_what_is_measured_is_an_option(measured: str) -> None:
    assert right_options("27", "bigger_batch", measured) == [measured]
    assert f'"{measured}"' in LESSON.text


def test_a_published_run_is_what_its_source_says() -> None:
    # 32.3 PFLOP in 7 minutes on an A100 of 312 TFLOP/s; at 3.33 GFLOP a picture
    share = pictures.REACHED / 312e12
    from_images = 23_000 * 3_328_997_376 / 312e12
    assert from_images == pytest.approx(share, rel=0.01)
    assert round(share, 2) == 0.25


def test_each_convolution_has_its_three_products_a_norm_and_a_relu_both_ways() -> None:
    made = launches.kernels(4)
    relus = 20 - 3  # not on the shortcuts
    assert len(made) == 20 * (3 + 2) + 2 * relus
    assert len(launches.kernels(4, fused=True)) == 20 * 3
    # three products for each convolution; the formula leaves out the first one's input and the head
    step = resnet_step(4, resnet_convolutions(64), 512)
    first, head = 2 * 4 * 64 * 3 * 9 * 32 * 32, 3 * 2 * 4 * 512 * 10
    assert sum(flop for flop, _ in made) == step + first - head


def test_a_kernel_moves_what_it_reads_and_writes() -> None:
    made = launches.kernels(1)
    whole = 2 * 64 * 32 * 32  # bytes of the first output; norm and ReLU, forward and backward
    assert [size for _, size in made[1:5]] == [3 * whole, 2 * whole, 3 * whole, 5 * whole]
    # the first convolution of the second stage: 64×32×32 in, 128×16×16 out, behind five others
    assert made[7 * 5][1] == 2 * (64 * 32 * 32 + 128 * 16 * 16 + 64 * 128 * 9)


def test_the_simulated_peak_is_what_the_text_says() -> None:
    h100 = hardware.DEVICES["h100"]
    limits = h100["peak"]["bf16"], h100["bandwidth"]
    made = launches.kernels(512)
    assert share_of_peak(made, 5e-6, *limits) == pytest.approx(0.399, abs=0.001)
    takes = [max(flop / limits[0], size / limits[1]) for flop, size in made]
    idle = sum(took for (flop, _), took in zip(made, takes, strict=True) if not flop)
    assert 0.5 < idle / sum(takes) < 0.6  # "over half of the time"
    for batch in (128, 512, 2048):  # "even the last column stays above the published quarter"
        slow = share_of_peak(launches.kernels(batch), 5e-6, h100["reached"], h100["bandwidth"])
        assert slow * h100["reached"] / limits[0] > 0.26


def test_a_step_has_as_many_operations_whatever_its_width_and_batch() -> None:
    found = set()
    for width, batch in ((8, 1), (8, 3), (16, 2)):
        model, images = resnet18(width=width), torch.zeros(batch, 3, 32, 32)
        with launches.Calls() as step:
            model(images).logsumexp(1).mean().backward()
        found.add(step.count)
    assert len(found) == 1 and found.pop() > 100


def test_pictures_say_all_of_it_in_words() -> None:
    question = pictures.draw_question()
    assert "25 %" in question.alt and "20 %" in question.alt
    rates = {"fp32": [100.0, 120.0, 110.0], "bf16": [50.0, 60.0, 55.0]}
    drawn = pictures.draw_ladder(rates, 2e9, 1e12, "cpu")
    assert drawn.alt.startswith("A CPU, no GPU: fp32 reaches 22 % of the peak. ")
    assert "bf16 11.0, from 10.0 to 12.0" in drawn.alt
    gpu = pictures.draw_ladder(rates, 2e9, 1e12, "NVIDIA H100 80GB HBM3")
    assert gpu.alt.startswith("fp32 reaches 22 % of the peak. ")
    assert "in % of the bf16 peak of one NVIDIA H100 80GB HBM3" in gpu.alt


def test_a_peak_is_that_of_the_bf16_units_of_a_known_gpu() -> None:
    assert pictures.peak_of("NVIDIA H100 80GB HBM3") == 989e12
    assert pictures.peak_of("cpu") is None
    assert launches.speed_of_a_product("cpu") > 0


def test_a_rehearsal_beside_a_gpu_asks_for_nothing_that_only_a_gpu_has() -> None:
    (cell,) = [cell.text for cell in LESSON.cells if "settings = {" in cell.text]
    head = cell.partition("rates = ")[0]
    asked = {}
    for size in ("rehearsal", "full"):
        names = {"GPUS": 1, "size": size}
        exec(head, names)
        asked[size] = set(names["settings"])
    assert asked["full"] - asked["rehearsal"] == {
        "tf32", "bf16, channels_last", "bf16, channels_last, compile",
    }  # fmt: skip


def test_the_recorded_curves_have_the_lessons_epochs() -> None:
    curves = recorded("27_batches")["curves"]
    assert list(curves) == ["64", "256", "1024"]
    (line,) = [line for line in LESSON.text.splitlines() if line.startswith("EPOCHS = ")]
    assert {len(curve) for curve in curves.values()} == {int(line.split()[2])}
