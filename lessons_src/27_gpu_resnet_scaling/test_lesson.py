"""Lesson 27 says what is true: its predictions, its published numbers, its recorded curves."""

import pytest

from dtlib.learn import source
from dtlib.learn.recorded import recorded
from dtlib.sim.flops import resnet_step
from dtlib.sim.tensors import resnet_convolutions
from tests.prediction_cases import right_options

from .exercises import EXERCISES

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
    share = 32.3e15 / (7 * 60) / 312e12
    assert EXERCISES["share_of_peak"].reference(23_100, 1.11e9, 1, 312e12) == pytest.approx(
        share, rel=0.01
    )


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
