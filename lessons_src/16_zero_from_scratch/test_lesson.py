"""Lesson 16 says what is true: its predictions, its quiz, and what its checks remark on."""

import cloudpickle
import pytest
import torch

from dtlib.learn import ladder, predictions, source, verdicts
from dtlib.learn.quiz import drawn
from dtlib.scratch.zero.schedule import schedule as of_the_course
from dtlib.sim.states import model_states
from tests.prediction_cases import right_options
from tests.scratch_cases import elements_sent, most_gathered

from . import pictures as zero_view
from . import zero_runs
from .bank import accumulate as bank_16_accumulate
from .bank import held as bank_16_held
from .bank import norm as bank_16_norm
from .bank import schedule as bank_16_schedule
from .bank import stage1 as bank_16_stage1
from .exercises import held, schedule, sent
from .what_if import passes


@pytest.fixture(autouse=True, scope="module")
def by_value():
    """Send the answers as a notebook would: their modules are not there on the ranks."""
    for bank in (bank_16_norm, bank_16_schedule, bank_16_accumulate, bank_16_stage1):
        cloudpickle.register_pickle_by_value(bank)
    yield
    for bank in (bank_16_norm, bank_16_schedule, bank_16_accumulate, bank_16_stage1):
        cloudpickle.unregister_pickle_by_value(bank)


LESSON = source.find("16")
SIDECAR = LESSON.sidecar


def judge(exercise, answer):
    return ladder.judge(LESSON, exercise, ladder.find_exercise(LESSON, exercise), answer)


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("stage1_sends", 0.5, "half as much"),
        ("stage1_sends", 1.0, "exactly as much"),
        ("stage1_sends", 1.5, "one and a half times as much"),
        ("stage1_sends", 4, "N times as much"),
        ("eight_micro_batches", 1, "no more, both send once a step"),
        ("eight_micro_batches", 1.5, "one and a half times as much"),
        ("eight_micro_batches", 4.5, "four and a half times as much"),
        ("eight_micro_batches", 8, "eight times as much"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("16", key, value) == [right]


@pytest.mark.parametrize(("guess", "right"), [(8, False), (2.9, True), (3, True), (4, False)])
def test_the_myth_of_eight_times_is_no_good_prediction(guess, right):
    assert predictions.verdict(SIDECAR["predictions"]["eightfold"], guess, 16 / 5.5) is right


@pytest.mark.parametrize(
    ("runs", "begins"),
    [
        ([], "Say that you measure 10 bytes"),
        ([{"lesson": "16", "what": "bytes a parameter at stage 1, fp32",
           "measured": "10.0"}], "You measured 10 bytes"),
    ],
)  # fmt: skip
def test_the_quiz_says_you_measured_only_to_one_who_has(runs, begins):
    assert drawn(SIDECAR["quiz"], runs)[0]["variants"][0]["text"].startswith(begins)
    assert 'learn.my_run("bytes a parameter at stage 1, fp32"' in LESSON.text


def test_norms_of_the_clipped_log_are_whole_numbers():
    question = next(q for q in drawn(SIDECAR["quiz"], []) if q["id"] == "clip_log")
    for variant in question["variants"]:
        lengths = [float(line.split("norm ")[1].split(",")[0]) for line in
                   variant["output"].strip().splitlines()]  # fmt: skip
        assert sum(x * x for x in lengths) ** 0.5 % 1 == 0


# --- What the lesson claims ---------------------------------------------------------------------


def test_the_clip_of_the_lesson_cuts_in_every_step():
    sizes = zero_runs.Sizes()
    assert "max_norm = 0.01" in LESSON.text
    for kind in zero_runs.MAKE:
        norms = []
        clip = torch.nn.utils.clip_grad_norm_

        def noted(parameters, largest, norms=norms, clip=clip):
            norms.append(float(clip(parameters, largest)))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", noted)
            list(zero_runs.replace(sizes, clip=0.01).twin(kind))
        assert len(norms) == sizes.steps and min(norms) > 0.01


def test_fifty_ranks_save_seven_times():
    """16 / (2 + 14/N) is 7 at N = 49: of the slider's powers of two 64 is the first."""
    assert next(n for n in (2**p for p in range(11)) if 16 / (2 + 14 / n) >= 7) == 64


def test_the_papers_table_by_the_courses_own_function():
    rows = zero_view.beside_the_paper(held.held)
    assert all(zero_view.as_printed(x, y) for _, *pairs in rows for x, y in pairs)
    for mine, row in zip(zero_view.beside_the_paper(bank_16_held.by_hand), rows, strict=True):
        assert [x for x, _ in mine[1:]] == pytest.approx([x for x, _ in row[1:]])


@pytest.mark.parametrize("stage", range(4))
def test_the_solutions_say_what_the_course_does(stage):
    assert schedule.zero3_schedule(stage + 1) == of_the_course([[k] for k in range(stage + 1)])
    for k in (1, 8):
        assert sent.sent(12, 4, stage, k) == passes(stage, k) * 12 * 3 / 4
    for precision in ("mixed", "fp32"):
        strategy = ("ddp", "zero1", "zero2", "zero3")[stage]
        device = model_states(12, 4, strategy, precision, kept="paper")["device"]
        own = {kind: device[kind] for kind in held.KINDS}
        own["optimizer"] += device["fp32_copy"]
        assert held.held(12, 4, stage, precision) == own


@pytest.mark.parametrize("k", [1, 8])
def test_a_schedule_sends_what_the_formula_says(k):
    lines = schedule.zero3_schedule(4)[:-1] * k
    psi = dict.fromkeys(range(4), 12)
    assert elements_sent(lines, psi, 4) == sent.sent(48, 4, 3, k)
    assert most_gathered(lines, psi) == 12


def test_right_answers_of_another_kind_keep_the_lessons_promises():
    """What passes its check must not stop Run All at one of the lesson's assertions."""
    update = zero_runs.from_shards(bank_16_norm.gathers_norms, 0.01)
    ways = {
        "stage 1": zero_runs.Flat(bank_16_stage1.pads),
        "as a class": zero_runs.Flat(bank_16_stage1.Shards),
        "stage 2": zero_runs.Flat(update, bank_16_accumulate.pads_and_asks_the_library),
        "in place": zero_runs.Flat(update, bank_16_accumulate.in_place),
    }
    n, sizes = 2, zero_runs.Sizes(ranks=2, steps=2)
    for mixed, formula in ((False, (8 + 8 / n, 4 + 12 / n)), (True, (4 + 12 / n, 2 + 14 / n))):
        found = zero_runs.run(ways, sizes, kinds=["AdamW"], mixed=mixed, clip=0.01)
        expected = [bytes_each for bytes_each in formula for _ in range(2)]
        for books, bytes_each in zip(found.values(), expected, strict=True):
            # a master that copies fp32 weights does not count as fp32_copy
            assert books.bytes_each == bytes_each
            assert books.sent == pytest.approx(2 * (n - 1) / n, abs=0.001)


def test_every_schedule_that_passes_runs_on_the_worker():
    answers = bank_16_schedule.ALSO_RIGHT
    ways = {a.__name__: zero_runs.Scheduled(list(a(4))) for a in answers}
    found = zero_runs.run(ways, zero_runs.Sizes(ranks=2, steps=2))
    assert zero_runs.worst(found) < 1e-5
    sent = {name: round(books.sent * 2, 1) for name, books in found.items()}
    assert sent["keeps_the_last_layer"] == 2.8 and sent["gathers_one_ahead"] == 3  # of four layers


# --- What a check says to answers that are right ------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (bank_16_schedule.keeps_the_last_layer, "save one gather"),
        (bank_16_schedule.gathers_one_ahead, "prefetching"),
        (bank_16_schedule.yields, ""),
    ],
)
def test_a_better_or_a_dearer_schedule_gets_its_remark(answer, words):
    found = judge("zero3_schedule", answer)
    assert isinstance(found, verdicts.Passed)
    assert words in found.note if words else not found.note
