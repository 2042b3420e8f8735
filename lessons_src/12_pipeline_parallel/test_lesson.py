"""Lesson 12 says what is true: its predictions, its runs, its pictures and its what-if."""

import pytest

from dtlib.learn import ladder, source, verdicts
from dtlib.learn.quiz import drawn
from dtlib.scratch import pipeline as p
from dtlib.sim import pipeline as formulas
from tests.prediction_cases import right_options

from . import pictures, pipeline_runs
from .bank import mine as bank_mine
from .bank import one_f_one_b as bank_1f1b
from .exercises import bubble, mine, one_f_one_b
from .what_if import bubble_curve

LESSON = source.find("12")


@pytest.mark.parametrize(
    ("value", "right"), [(0.9, "clearly shorter"), (1.0, "as long"), (1.2, "clearly longer")]
)
def test_one_option_of_the_prediction_is_right(value, right):
    assert right_options("12", "gpipe_or_1f1b", value) == [right]


@pytest.mark.parametrize(("ranks", "many"), [(1, 2), (2, 3), (4, 8), (4, 2), (5, 5)])
def test_the_solutions_are_the_courses_own_schedules(ranks, many):
    for rank in range(ranks):
        want = p.one_forward_one_backward(rank, ranks, many)
        assert one_f_one_b.one_f_one_b(rank, ranks, many) == want
        assert mine.my_schedule(rank, ranks, many) == p.zero_bubble_h1(rank, ranks, many)


@pytest.mark.parametrize("many", [2, 8])
def test_the_bubble_by_hand_is_the_librarys(many):
    spans = p.follow(p.with_messages(p.for_all_ranks(p.gpipe, 4, many)))
    rows = [(s.rank, s.start, s.end) for s in spans if s.end > s.start]
    assert bubble.idle_share(rows) == pytest.approx(p.idle_share(spans)) == 3 / many


def test_every_schedule_that_passes_trains_as_one_process_does():
    """What passes its check must not stop Run All at one of the lesson's assertions."""
    answers = [*bank_1f1b.ALSO_RIGHT, *bank_mine.ALSO_RIGHT]
    ways = {a.__name__: p.for_all_ranks(a, 2, 4) for a in answers}
    found = pipeline_runs.run(ways, 0.001)
    assert pipeline_runs.worst(found) < 1e-11
    for name, books in found.items():
        assert books.kept == [p.kept_at_most(lines) for lines in ways[name]]
        assert books.messages == formulas.messages(0, 2, 4) == 4
        assert books.bytes == 4 * 2 * pipeline_runs.WIDTH * 8  # two samples in float64
        assert {s.line for s in books.spans} == {line for lines in ways[name] for line in lines}
    assert "measured" in pictures.read_and_measured(ways, found, 0.001)[1]
    figure = pictures.draw_measured({"mine": found["newest_first"]})
    assert "Measured." in figure.alt and "mine rank 1: F0 I0 F1 I1 W0" in figure.alt


def test_pictures_say_what_they_show():
    lists = p.for_all_ranks(p.gpipe, 2, 2)
    figure = pictures.draw_schedules({"GPipe": p.follow(p.with_messages(lists))})
    assert figure.get_suptitle() == "GPipe is idle for 0.5 of its computing time"
    assert "Simulated." in figure.alt
    assert "GPipe rank 1: F0 F1 B1 B0, from 1 to 7 units." in figure.alt
    rows, *_ = pictures.idle_and_kept({"GPipe": lists})
    assert rows == [["GPipe", "9", "0.5", "2 2"]]
    split = {"mine": p.for_all_ranks(p.zero_bubble_h1, 2, 4)}
    captions = [pictures.idle_and_kept(ways)[2] for ways in ({"GPipe": lists}, split)]
    assert ["a backward 2" in caption for caption in captions] == [True, False]
    assert ["split backward 1" in caption for caption in captions] == [False, True]
    both = {"GPipe": p.gpipe, "1F1B": p.one_forward_one_backward}
    ways = {name: p.for_all_ranks(schedule, 4, 8) for name, schedule in both.items()}
    rows, *_ = pictures.with_slow_messages(ways)
    assert rows[0] == ["0", "33", "33"] and rows[2] == ["0.5", "36", "41"]
    assert "rank 3: F0 B0" in pictures.draw_question().alt
    rows, *_ = pictures.interleaved(4, 8)
    assert [row[:3] for row in rows] == [[1, "0.375", 16], [2, "0.188", 32], [4, "0.0938", 64]]


@pytest.mark.parametrize(("schedule", "idle"), [(0, 3 / 8), (1, 3 / 8), (2, 3 / 16), (3, 1 / 8)])
def test_the_sliders_say_what_the_formulas_say(schedule, idle):
    told = bubble_curve(4, 2, schedule, 2)
    assert told["point"] == [8, pytest.approx(idle)]
    assert told["point"] in told["curves"][["GPipe", "1F1B", "interleaved", "ZB-H1"][schedule]]
    kept = {0: "8", 1: "4", 2: "5.5", 3: "4"}[schedule]
    assert f"Rank 0 keeps {kept} micro-batches" in told["says"]
    assert f"up to {32 if schedule == 2 else 16} messages" in told["says"]


def test_the_quiz_reads_the_lists_that_1f1b_has():
    question = next(q for q in drawn(LESSON.sidecar["quiz"], []) if q["id"] == "read_a_list")
    for variant in question["variants"]:
        ranks = int(next(option["text"] for option in variant["options"] if option["right"]))
        words = pictures.order(p.one_forward_one_backward(0, ranks, 12))
        assert words.startswith(variant["output"].strip().removeprefix("rank 0: "))


def test_the_check_remarks_on_the_shortest_bubble():
    check = ladder.find_exercise(LESSON, "my_schedule")
    found = ladder.judge(LESSON, "my_schedule", check, p.zero_bubble_h1)
    assert isinstance(found, verdicts.Passed) and "ZB-H1" in found.note
