"""Lesson 04 says what is true: its predictions, its patient, the numbers that its prose names."""

import inspect
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from dtlib.learn import ladder, source, verdicts
from dtlib.learn.quiz import drawn
from dtlib.scratch.loss_scaling import LossScaler
from dtlib.sim.hardware import DEVICES
from tests.prediction_cases import right_options

from .bank import scaled
from .exercises import clipped, decode, patient
from .formats import FORMATS, limits

LESSON = source.find("04")
SIDECAR = LESSON.sidecar
PROSE = " ".join(" ".join(c.text.split()) for c in LESSON.cells if c.kind == "markdown")


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("half_speed", 0.1, "much less time, two thirds or below"),
        ("half_speed", 0.67, "much less time, two thirds or below"),
        ("half_speed", 1.0, "about as much"),
        ("half_speed", 1.5, "more, up to ten times"),
        ("half_speed", 100.0, "more than ten times as much"),
        ("nearer", 0.5, "those of bf16, since its range is that of fp32"),
        ("nearer", 1.0, "both alike, since both have 16 bits"),
        ("nearer", 8.0, "those of fp16, since its mantissa is longer"),
    ],
)
def test_one_option_of_a_prediction_is_right(key: str, value: float, right: str) -> None:
    assert right_options("04", key, value) == [right]


def test_the_peaks_of_the_opening_are_those_of_the_table() -> None:
    peak = DEVICES["h100"]["peak"]
    assert f"at {peak['fp32'] / 1e12:.0f} TFLOP/s in fp32 and at {peak['fp16'] / 1e12:.0f}" in PROSE
    assert peak["fp16"] == peak["bf16"]
    assert "bf16" not in DEVICES["v100"]["peak"]


def test_the_numbers_about_formats() -> None:
    spans = {
        name: math.log2(limits(name)["largest"] / limits(name)["smallest"])
        for name in ("fp16", "bf16")
    }
    assert round(spans["fp16"]) == 40 < 250 < spans["bf16"]
    assert "fp16 covers 40 powers of two, bf16 more than 250" in PROSE
    one = torch.ones((), dtype=torch.bfloat16)
    assert f"{torch.nextafter(one, 2 * one).item():.4f}" == "1.0078"
    (e, m, _), (wide, short, _) = FORMATS["fp16"], FORMATS["bf16"]
    assert (m - short, wide - e) == (3, 3)
    assert limits("e4m3")["smallest"] == 2**-9


def test_the_worked_case_is_the_fp16_row_of_minus_a_tenth() -> None:
    row = torch.tensor(-0.1).half().view(torch.int16).item() % 2**16
    assert f"{row:016b}" == "1" + "01011" + "1001100110"
    assert decode.decode(row, 5, 10) == -1 * (1 + 614 / 1024) * 2.0 ** (11 - 15)


def test_the_smallest_step_of_the_quiz_changes_a_bf16_weight() -> None:
    (question,) = (q for q in SIDECAR["quiz"] if q["id"] == "smallest_step")
    for weight in question["vary"]["w"]:
        w = torch.tensor(float(weight), dtype=torch.bfloat16)
        moved = {s: (w + s * weight).item() != weight for s in (0.006, 0.003, 0.0005, 0.02)}
        assert moved == {0.006: True, 0.003: False, 0.0005: False, 0.02: True}
    assert (torch.ones((), dtype=torch.float16) + 0.0005).item() > 1


@pytest.mark.parametrize(
    ("runs", "begins"),
    [
        ([], "Say that you measured a bf16 product 2.50 times"),
        (
            [{"lesson": "04", "what": "bf16 product, times as fast as fp32", "measured": "1.25"}],
            "You measured a bf16 product 1.25 times",
        ),
    ],
)
def test_the_quiz_asks_about_the_students_own_number(runs: list, begins: str) -> None:
    question = drawn(SIDECAR["quiz"], runs)[0]["variants"][0]
    assert question["text"].startswith(begins)
    assert "times as fast as fp32" in LESSON.text


def test_what_the_lesson_says_of_torch() -> None:
    assert torch.amp.GradScaler("cpu").get_growth_interval() == 2000
    asked = inspect.signature(torch.cuda.is_bf16_supported).parameters["including_emulation"]
    assert asked.default is True
    beyond = torch.tensor([464.0, 500.0]).to(torch.float8_e4m3fn).float().tolist()
    assert beyond[0] == 448
    saturates = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
    assert beyond[1] == 448 if saturates else math.isnan(beyond[1])


def _cell(word: str) -> dict:
    """What the names of a code cell are after it ran, with the ones of the cells before."""
    (text,) = (c.text for c in LESSON.cells if c.kind == "code" and word in c.text)
    names = {"torch": torch, "learn": SimpleNamespace(table=lambda *given: given)}
    exec(text, names)
    return names


def test_fp4_of_the_lesson_has_the_numbers_of_e2m1() -> None:
    names = _cell("def nv_scale")
    sizes = [decode.decode(bits, 2, 1) for bits in range(6)]  # the rows below all ones
    assert names["FP4"].tolist() == [*sizes, 4, 6]  # e2m1 has no infinity: all ones are numbers
    x = torch.tensor([0.2, 0.3, -1.2, 2.4, -5.2, 9.0])
    assert names["e2m1"](x).tolist() == [0, 0.5, -1, 2, -6, 6]


def test_a_block_scale_is_the_largest_power_of_two_that_keeps_the_exponent_in_range() -> None:
    power = _cell("def nv_scale")["power_of_two"]
    assert power(torch.tensor([1.0, 448.0, 511.0, 512.0]), 8).tolist() == [2**-8, 1, 1, 2]
    assert power(torch.tensor([6.0, 7.9, 8.0]), 2).tolist() == [1, 1, 2]


def test_tf32_of_the_lesson_has_ten_bits_of_mantissa() -> None:
    cut = _cell("def to_tf32")["to_tf32"]
    x = torch.tensor([1 + 2**-10, 1 + 2**-11, -(1 + 2**-10 + 2**-11), 3e38])
    assert cut(x)[:3].tolist() == [1 + 2**-10, 1, -(1 + 2**-10)]
    assert cut(x)[3].isfinite()


def test_tf32_is_off_for_products_and_on_for_convolutions_unless_somebody_sets_it() -> None:
    shown = "torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32"
    command = [sys.executable, "-c", f"import torch; print({shown})"]  # other tests have set them
    assert subprocess.check_output(command, text=True).split() == ["highest", "True"]


# field bug 4.01
def test_the_patient_is_ill_by_its_scale_and_the_reference_heals_it() -> None:
    rows = [patient.run(scale) for scale in (1, 1024)]
    assert rows[1][1] == pytest.approx(1024 * rows[0][1], rel=1e-5)
    assert rows[1][2] == pytest.approx(1 / 1024, rel=1e-4)
    assert rows[1][4] > 100 * rows[0][4]
    healed = [patient.run(scale, clipped.clipped_step) for scale in (1, 1024, 2**16)]
    assert [row[1:] for row in healed] == [healed[0][1:]] * 3


def test_both_scalers_of_the_last_exercise_have_its_four_calls() -> None:
    for scaler in (LossScaler(), torch.amp.GradScaler("cpu")):
        assert all(callable(getattr(scaler, n)) for n in ("scale", "unscale_", "step", "update"))


def test_the_ladders_two_answers_get_one_sentence_and_are_different() -> None:
    name, found, marks = "scaled_step", [], set()
    for text in scaled.LADDER:
        namespace: dict = {}
        exec(text, namespace)
        exercise = ladder.find_exercise(LESSON, name)
        found.append(ladder.judge(LESSON, name, exercise, namespace[name]).mistake)
        marks.add(verdicts.fingerprint(namespace[name]))
    assert found == ["only_nan", "only_nan"]
    assert len(marks) == 2
