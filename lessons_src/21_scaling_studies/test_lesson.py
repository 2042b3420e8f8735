"""Lesson 21 says what is true: its worked cases, its options, the tables that it cites."""

import ast
import re
import statistics

import numpy as np
import pytest
from banks import verdict

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.learn.verdicts import Wrong
from dtlib.measure.noise import compare
from dtlib.study import scaling, sensitivity
from tests.prediction_cases import right_options

from .exercises import efficiencies, gains, planning
from .what_if import serial_share, strong_step

LESSON = source.find("21")


def test_the_worked_cases() -> None:
    text = LESSON.text.replace("\n# ", " ")
    assert "The speed-up is 1.6, the efficiency 8 / (2·5) = 0.8" in text
    assert serial_share(8 / 5, 2) == pytest.approx(0.25) and "and so s = 0.25" in text


def test_the_published_table_is_an_option() -> None:
    assert right_options("21", "two_gpus", "0.49") == ["0.49"]
    assert round(4451 / 4507 / 2, 2) == 0.49


@pytest.mark.parametrize("case", gains.EXERCISE.cases)
def test_the_exercise_says_what_the_library_says(case) -> None:
    """`measure.noise.compare`, and the verdict that `dtlib study sensitivity` prints."""
    _, (before, after), _ = case
    said = gains.verdict(before, after)
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    assert compare(statistics.median(ratios), ratios).real == (said != sensitivity.NOISE)
    printed = sensitivity.verdict([ratio - 1 for ratio in ratios])
    assert printed == said or (printed, said, len(ratios)) == (sensitivity.SINGLE, "noise", 1)


def test_the_worked_example_of_noise() -> None:
    ratios = [1.05, 1.2, 1.1]
    assert gains.verdict([1, 1, 1], ratios) == "noise" and round(1.2 / 1.05, 2) == 1.14
    assert "1.05, 1.2 and 1.1 have a spread of 1.2 / 1.05" in LESSON.text


@pytest.mark.parametrize("case", efficiencies.EXERCISE.cases)
def test_the_solution_is_the_studys_own_formula(case) -> None:
    _, (kind, rows) = case
    runs = [{**row, "study": kind, "world_size": row["ranks"]} for row in rows]
    found = {n: sorted(values)[len(values) // 2] for n, values in scaling.paired(runs).items()}
    assert efficiencies.efficiency(kind, rows) == pytest.approx(found)


def test_the_plan_is_the_studys_own() -> None:
    for kind in scaling.KINDS:
        settings = {"task": "text", "global_batch": 8}
        runs = [one.config for one in scaling.plans(kind, settings, [2, 4], 2)]
        mine = planning.plan(kind, [2, 4], 2, 8)
        assert [(r.ranks, r.global_batch, r.threads) for r in runs] == [
            (m["ranks"], m["global_batch"], m["threads"]) for m in mine
        ]


def test_the_output_of_the_quiz_is_noise() -> None:
    (question,) = [item for item in LESSON.sidecar["quiz"] if item["id"] == "read_a_table"]
    rows = [list(map(int, line.split())) for line in question["output"].splitlines()[1:]]
    before, after = ([row[at] for row in rows] for at in (1, 2))
    assert gains.verdict(before, after) == "noise"
    percent = [round(100 * (b / a - 1)) for a, b in zip(before, after, strict=True)]
    assert percent == [22, -3, 12]
    low, middle, high = sorted(b / a for a, b in zip(before, after, strict=True))
    assert [round(x, 2) for x in (low, middle, high, high / low)] == [0.97, 1.12, 1.22, 1.25]


@pytest.mark.parametrize("eff", [0.4, 0.75, 0.97, 1.0, 1.2])
def test_the_quiz_has_one_right_answer_for_every_efficiency(eff: float) -> None:
    runs = [
        {"lesson": "21", "what": "strong efficiency on the most ranks here", "measured": str(eff)}
    ]
    for variant in drawn(LESSON.sidecar["quiz"], runs)[0]["variants"]:
        assert variant["text"].startswith("You measured" if eff <= 0.97 else "Say that you")
        texts = [option["text"] for option in variant["options"]]
        assert len(set(texts)) == 4 and "2.00 times" not in texts


def test_words_in_an_array_get_a_verdict() -> None:
    assert isinstance(verdict("21", "verdict", lambda a, b: np.array(["gain"] * 3)), Wrong)


def test_the_buckets_that_vary_are_those_that_are_read() -> None:
    (given,) = re.findall(r'"--bucket-cap-mb", "([\d.,]+)"', LESSON.text)
    keys = ast.literal_eval(f"[{given}]")
    assert f"{{{keys[0]}: [], {keys[1]}: []}}" in LESSON.text


def test_a_warm_up_in_the_means_hurts_strong_scaling_and_flatters_weak() -> None:
    (item,) = [item for item in drawn(LESSON.sidecar["quiz"], []) if item["id"] == "warm_up"]
    for variant in item["variants"]:
        n, cold = map(
            int, re.findall(r"has (\d+) steps, and its first\s+one takes (\d+)", variant["text"])[0]
        )
        (e,) = map(float, re.findall(r"efficiency, ([\d.]+)\.", variant["text"]))
        one = (cold + (n - 1) * 1.0) / n
        strong, weak = (cold + (n - 1) / (8 * e)) / n, (cold + (n - 1) / e) / n
        told = f"Strong scaling {one / (8 * strong):.2f}, weak scaling {one / weak:.2f}"
        (right,) = [option["text"] for option in variant["options"] if option.get("right")]
        assert right == told and one / (8 * strong) < e < one / weak


def test_weak_scaling_towards_a_loss_is_amdahls_law() -> None:
    """1 + B/M times as many steps with M samples: the share b / (b + B) is not divided."""
    for noise, batch, ranks in ((27.0, 8, 64), (3.0, 16, 2)):
        sooner = (1 + noise / batch) / (1 + noise / (batch * ranks))
        assert sooner == pytest.approx(1 / strong_step(ranks, batch / (batch + noise), 0))
