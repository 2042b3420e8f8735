"""Lesson 22 says what is true: its predictions, its worked cases, its record, its quiz."""

import ast
import json
import math
import re
import statistics

import pytest
from banks import verdict

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.learn.verdicts import Wrong
from tests.prediction_cases import right_options

from .exercises import bounds, pairs, paying, same
from .what_if import total_gain

LESSON = source.find("22")
SIDECAR = LESSON.sidecar


def levers() -> list[str]:
    """The names of the lesson's dict of levers."""
    (cell,) = [cell.text for cell in LESSON.cells if "\nlevers = {" in cell.text]
    (value,) = [
        node.value
        for node in ast.parse(cell).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "levers"
    ]
    assert isinstance(value, ast.Dict)
    return [ast.literal_eval(key) for key in value.keys if key is not None]


def test_whichever_lever_gives_most_is_an_option() -> None:
    spec = SIDECAR["predictions"]["most"]
    assert sorted(option["text"] for option in spec["options"]) == sorted(levers())


@pytest.mark.parametrize(
    ("value", "begins"), [(1 / 0.6, "1.67"), (1.25**2, "1.56"), (1.5, "1.5 "), (1.25, "1.25")]
)
def test_one_option_of_two_levers_is_right(value: float, begins: str) -> None:
    found = right_options("22", "two_levers", value)
    assert found and found[-1].startswith(begins)
    if value == 1 / 0.6:
        assert len(found) == 1


def test_the_worked_cases_of_the_text() -> None:
    assert pairs.gain([9, 4, 4, 4], [1, 2, 2.5, 4]) == (1.6, 1, 2)
    assert bounds.bound([(0.5, 2)]) == pytest.approx(1.33, abs=0.005)
    assert paying.break_even(1, 0.5, 0.25, [32] * 8) == 4
    assert paying.break_even(1, 0.5, 0.25, [32] * 4 + [20] + [32] * 7) == 8
    after = {**same.BASE, "ranks": 4, "accumulation": 2}
    assert same.same_experiment(same.BASE, after) == "same"
    for words in (
        "(4, 2), (4, 2.5) and (4, 4)",
        "is (1.6, 1, 2)",
        "a gain of 1.33",
        "same size give 4",
    ):
        assert words in LESSON.text.replace("\n# ", " ")


def test_the_bound_is_what_the_sliders_show() -> None:
    for _, (given,), *_ in bounds.EXERCISE.cases:
        shares, speedups = zip(*given, strict=True) if given else ((), ())
        assert bounds.bound(given) == pytest.approx(total_gain(shares, speedups))


def test_the_record_is_whole_and_the_lesson_can_reckon_with_it() -> None:
    path = LESSON.room / "records/22_compile.json"
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert len(results) == 2
    for name, (cost, plain, again, fast, (issued, kernels)) in results.items():
        assert f'"{name}"' in LESSON.text
        assert len(plain) == len(again) == len(fast) > 1
        assert cost > max(plain) > 0 < kernels <= issued
    (network, jitter) = (row[-1] for row in results.values())
    cost, plain, _, fast, _ = results["a colour jitter of 32 pictures"]
    saved = 1e3 * (statistics.median(plain) - statistics.median(fast))
    assert f"{cost:.0f} s for the jitter, which then saved {saved:.2f} ms" in re.sub(
        r"\n# ", " ", LESSON.text
    )
    assert network[0] == network[1] and jitter == [10, 1]  # "as many as before"


@pytest.mark.parametrize("own", [0.9, 1.0, 1.02, 1.2, 2.0, 2.85, 9.0, 15.0])
def test_the_quiz_has_one_right_answer_for_every_gain(own: float) -> None:
    runs = [
        {"lesson": "22", "what": "gain of all levers that keep the numbers", "measured": str(own)}
    ]
    for variant in drawn(SIDECAR["quiz"], runs)[0]["variants"]:
        assert variant["text"].startswith("You measured" if own >= 1.1 else "Say that you")
        texts = [option["text"] for option in variant["options"]]
        assert len(set(texts)) == len(texts), texts


def test_the_shares_of_the_quiz_fit_in_a_step() -> None:
    (spec,) = [item["vary"] for item in SIDECAR["quiz"] if item["id"] == "idle_share"]
    assert max(spec["c"]) + max(spec["x"]) <= 100 and max(spec["w"]) <= min(spec["x"])


def test_the_verdict_counts_pairs_as_coins() -> None:
    """With all pairs above, 1 of 2ⁿ; more pairs cannot lift the smallest, only the count."""
    lines = map(str.strip, LESSON.text.splitlines())
    (line,) = [text for text in lines if text.startswith("luck = ")]
    luck = line.removeprefix("luck = ")
    for repeats, over, found in ((8, 8, 1), (8, 7, 9), (3, 0, 8)):
        assert eval(luck, {"math": math, "repeats": repeats, "over": over}) == found


def raises(model, optimizer, loss_fn, micro_batches):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("gain", lambda before, after: iter(int, 1)),
        ("gain", lambda before, after: "1.25"),
        ("gain", lambda before, after: (float("nan"),) * 3),
        ("gain", lambda before, after: [].clear()),
        ("bound", lambda levers: [1.3]),
        ("bound", lambda levers: float("nan")),
        ("break_even", lambda cost, before, after, sizes: -1),
        ("break_even", lambda cost, before, after, sizes: "never"),
        ("same_experiment", lambda before, after: ["same"]),
        ("same_experiment", lambda before, after: [].clear()),
        ("faster_step", raises),
        ("faster_step", lambda model, optimizer, loss_fn, micro_batches: [1.0]),
        ("faster_step", lambda model, optimizer, loss_fn, micro_batches: -1),
    ],
)
def test_a_hostile_answer_gets_a_verdict(exercise, answer) -> None:
    assert isinstance(verdict("22", exercise, answer), Wrong)
