"""Lesson 29 says what is true: its worked numbers, its options, the errors that it plants."""

import re
import statistics

import pytest

from dtlib.errors import BadInput
from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.learn.recorded import recorded
from dtlib.sim import hardware
from dtlib.sim.estimate import Setup, estimate
from dtlib.sim.node_hours import gpu_hours, node_hours
from dtlib.study import scaling
from dtlib.study.capstone import claims, contents, documents, review, sections
from dtlib.study.capstone.evidence import Evidence
from dtlib.study.capstone.words import Words
from tests.capstone_cases import STRONG, WEAK, evidence, rows
from tests.prediction_cases import right_options

from .exercises import hours, spreads
from .exercises.claims import find_the_error
from .making import refuse_without_curve, show_pages, what_you_have
from .spoiling import claims_of, spoiled

LESSON = source.find("29")


def test_the_run_of_the_prediction() -> None:
    setup = Setup("gpt2-xl", micro_batch=1)
    flop = 30e9 * estimate(setup).flop[0] / setup.sequence
    alone = gpu_hours(flop, hardware.peak("h100", "bf16"), 0.4)
    question = LESSON.sidecar["predictions"]["node_hours_of_a_run"]["question"]
    assert f"in {alone:.0f} hours" in question
    shown = {f"about {alone / 0.8 / 8:.0f}", f"about {round(alone) / 0.8:.0f}",
             f"about {alone / 0.8 / 16:.0f}", f"about {alone * 0.8 / 8:.0f}"}  # fmt: skip
    options = LESSON.sidecar["predictions"]["node_hours_of_a_run"]["options"]
    assert {option["text"] for option in options} == shown
    right = f"about {alone / 0.8 / 8:.0f}"
    assert right_options("29", "node_hours_of_a_run", right) == [right]
    assert "at 0.6 instead of\n#   0.8 you pay a third more" in LESSON.text


@pytest.mark.parametrize("case", spreads.EXERCISE.cases[:4])
def test_the_solution_is_what_the_papers_table_says(case) -> None:
    _, (kind, given) = case
    runs = [{**row, "study": kind, "world_size": row["ranks"]} for row in given]
    found = spreads.efficiency_with_spread(kind, given)
    for n, values in scaling.paired(runs).items():
        if n > 1:
            assert found[n][1:] == pytest.approx((min(values), max(values)))


@pytest.mark.parametrize("case", hours.EXERCISE.cases)
def test_the_node_hours_are_those_of_sim(case) -> None:
    _, given = case
    exact = node_hours(*given)
    assert exact <= hours.node_hours(*given) < exact + 1


def test_every_planted_error_is_found_and_nothing_else() -> None:
    studies = {"strong": rows("strong", STRONG), "weak": rows("weak", WEAK)}
    found = {name: {f.key for f in review.of_curve("strong", given)}
             for name, given in spoiled(studies).items()}  # fmt: skip
    assert list(found.values()) == [
        {"mixed"}, {"one_repeat"}, {"wrong_baseline"}, {"no_baseline"}, {"mfu"}, {"devices"},
        {"gpus_and_ranks"}, {"not_measured"},
    ]  # fmt: skip
    told = [claims.of_claim(one, studies) for one in claims_of(studies).values()]
    assert [[f.key for f in faults] for faults in told] == [
        ["extrapolated"], ["gpus_and_ranks"], ["best_of"],
    ]  # fmt: skip


def test_the_check_of_the_exercise_says_of_the_lessons_example_what_the_text_says() -> None:
    given = [{"ranks": n, "batch": 64 * n, "repeat": k, "step_time_s": t}
             for n, t in ((1, 100.0), (2, 102.0), (4, 105.0)) for k in (0, 1)]  # fmt: skip
    assert find_the_error("strong", given, 0.95) == "mixed"
    assert find_the_error("weak", given, 0.95) == "fine"


def test_the_students_function_gets_the_runs_of_any_strategy() -> None:
    (cell,) = re.findall(r"^for kind in folders:\n    rows = .*?(?=^draw_spread)", LESSON.text,
                         re.M | re.S)  # fmt: skip
    studies = {"strong": rows("strong", STRONG), "weak": rows("weak", WEAK)}
    for row in studies["strong"]:
        row["strategy"] = "single" if row["world_size"] == 1 else "zero2"
    given = {"folders": studies, "mine": evidence(studies=studies), "found": {}}
    solved = {"spread_of": spreads.efficiency_with_spread, "scaling": scaling,
              "statistics": statistics}  # fmt: skip
    exec(cell, given | solved)
    assert given["found"]["strong"].keys() == {2} == given["found"]["weak"].keys()


ONE, TWO = ([row for row in rows("strong", STRONG) if row["world_size"] == n] for n in (1, 2))


@pytest.mark.parametrize(
    ("strong", "said"),
    [
        (ONE, "Your strong study has runs on 1 rank only: give it more"),
        (TWO, "Your strong study has runs on 2 ranks and none on 1"),
        ([row | {"strategy": "ddp"} for row in ONE + TWO], "uses the strategy ddp"),
        ([row | {"repeat": 3} for row in ONE] + TWO, "has no run on 1 rank in its turn"),
        ([row | {"step_time_s": None} for row in ONE + TWO], "without a timed step"),
        ([], "Your strong table has no run"),
    ],
)
def test_a_study_without_an_efficiency_stops_the_lesson_with_a_sentence(strong, said) -> None:
    with pytest.raises(BadInput, match=said):
        refuse_without_curve({"strong": strong, "weak": rows("weak", WEAK)})


def test_a_study_that_has_an_efficiency_goes_on_to_its_review() -> None:
    one_repeat = [row for row in ONE + TWO if row["repeat"] == 0]
    for strong in (ONE + TWO, one_repeat, [row | {"mfu": 1.3} for row in ONE + TWO]):
        refuse_without_curve({"strong": strong, "weak": rows("weak", WEAK)})


def test_without_rows_and_studies_one_sentence_names_the_lessons(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    what_you_have(tmp_path / "studies")
    said = capsys.readouterr().out
    assert "lessons 21 and 22 give studies and gains" in said and said.count(".") == 3
    row = "lesson,what,predicted,measured,unit,source\n22,gain of a lever,,1.2,times,measured\n"
    (tmp_path / "my_runs.csv").write_text(row)
    what_you_have(tmp_path / "studies")
    assert "gain of a lever" in capsys.readouterr().out


def test_a_refused_paper_has_no_pages_and_says_so(tmp_path, capsys) -> None:
    show_pages("paper", tmp_path, [])
    (tmp_path / "paper.typ").write_text("of an earlier run")
    show_pages("paper", tmp_path, ["one repeat"])
    assert capsys.readouterr().out.count("No pages. The paper was not written") == 2


def test_the_words_of_the_example_pass_the_checker() -> None:
    (text,) = re.findall(r"^example = Words\.of\(\n(.*?)^\)", LESSON.text, re.M | re.S)
    words = Words.of(eval(text))
    assert words.missing == ["discussion"]
    assert claims.of_everything(evidence(), words) == []


@pytest.mark.slow
def test_the_courses_own_two_ranks_make_a_paper_of_four_pages(tmp_path) -> None:
    pytest.importorskip("typst", reason="typst is not installed: pip install -e '.[workshop]'")
    from pypdf import PdfReader

    course = Evidence(**recorded("29_two_ranks")["evidence"])
    assert {row["world_size"] for row in course.studies["weak"]} == {1, 2}
    words = Words.of({"discussion": "We see what we see."})
    assert claims.of_everything(course, words) == []
    told = list(documents.write(course, words, tmp_path))
    assert f"{tmp_path}/paper.pdf: 4 pages." in told and f"{tmp_path}/slides.pdf: 5 pages." in told
    pages = [
        " ".join(page.extract_text().split()) for page in PdfReader(tmp_path / "paper.pdf").pages
    ]
    assert len(pages) == 4
    for said in sections.results(course):
        assert said in pages[0] and said in pages[1]
    for row in sections.all_runs(course)["rows"]:
        assert " ".join(row) in pages[3]


def test_every_source_that_a_lesson_writes_is_known() -> None:
    written = {hit for lesson in source.lessons()
               for hit in re.findall(r'\bsource="(\w+)"', lesson.text)}  # fmt: skip
    assert {"simulated", "computed"} <= written <= set(review.SOURCES)


def test_the_rubric_has_twenty_points() -> None:
    assert contents.rubric()["most"] == 20 == 2 * len(contents.RUBRIC)


@pytest.mark.parametrize("eff", [0.4, 0.73, 0.95, 1.0, 1.3])
def test_the_quiz_has_one_right_answer_for_every_efficiency(eff: float) -> None:
    runs = [{"lesson": "29", "what": "weak efficiency for the request", "measured": str(eff)}]
    for variant in drawn(LESSON.sidecar["quiz"], runs)[0]["variants"]:
        used = float(re.findall(r"weak efficiency of (\d\.\d\d)", variant["text"])[0])
        gpus = int(re.findall(r"with (\d) GPUs", variant["text"])[0])
        (right,) = [option["text"] for option in variant["options"] if option.get("right")]
        assert right == f"{400 / used / gpus:.1f}"
        assert len({option["text"] for option in variant["options"]}) == 4
