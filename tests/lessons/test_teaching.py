"""What an instructor reads: notes at the cells they are about, wrong answers, two tests."""

import json
import re
from pathlib import Path

import pytest
from lesson_sources import write

from dtlib.errors import BadInput
from dtlib.learn.source import find, lessons
from dtlib.lessons.build import derive
from dtlib.lessons.teaching import sheets
from dtlib.lessons.teaching.exercises import exercises
from dtlib.lessons.teaching.notes import manual
from dtlib.lessons.teaching.wrong_answers import readable, wrong_answers
from dtlib.lessons.validate import validate_all

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "lessons_src"
LESSONS = lessons(SOURCES)
DEMO = find("90", PROJECT / "tests/fixtures/lessons_src")


def sources_of(lesson, kind: str = "instructor") -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(derive(lesson, kind))["cells"]]


def table(lesson, name: str) -> list[list[str]]:
    """The rows of the table of wrong answers: what was written, and what the check says."""
    (cell,) = wrong_answers(lesson, name)
    rows = [line for line in cell.text.splitlines() if line.startswith("| ")][2:]
    return [re.split(r"(?<!\\) ?\| ?", row)[1:-1] for row in rows]


# --- notes --------------------------------------------------------------------------------------


def test_notes_stand_at_the_cells_that_they_name():
    texts = sources_of(DEMO)
    shown = next(i for i, text in enumerate(texts) if 'learn.given("double")' in text)
    assert "what the room sees" in texts[shown + 1] and "> Six apples." in texts[shown + 1]
    skipped = next(i for i, text in enumerate(texts) if text.startswith("learn.what_if"))
    assert "run the next cell, and pass over it" in texts[skipped - 1]
    assert "> A line is a line." in texts[skipped - 1]
    for kind in ("student", "page"):
        assert not any("Six apples" in text or "Instructor" in text for text in
                       sources_of(DEMO, kind))  # fmt: skip


def test_the_manual_has_every_lesson_with_its_aim_minutes_and_exercises():
    text = manual(SOURCES)
    for lesson in LESSONS:
        section = text.split(f"## {lesson.number} ")[1].split("\n## ")[0]
        assert all(aim in section for aim in lesson.header["objectives"])
        for title in ("Aim", "Minutes", "Before you begin", "Ask the room", "What the room sees",
                      "If you are late", "What goes wrong"):  # fmt: skip
            assert f"**{title}.**" in section, (lesson.number, title)
        for one in exercises(lesson):
            assert f"| {one.number} `{one.name}`" in section
    assert "The core, exercises 1 and 3, takes 41." in text.split("## 07 ")[1].split("## 08")[0]


CHECKED = (
    '# %% tags=["exercise"]\ndef f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION',
    '# %% tags=["check"]\nlearn.check("f", f)',
    "shown = 1",
)
GOOD = {"before": "a", "shows": [{"cell": "shown = 1", "see": "b"}], "skip": [], "late": "c",
        "goes_wrong": "d", "ask": "e"}  # fmt: skip
EXERCISE = {"minutes": 1, "goes_wrong": "d", "ask": "e"}


@pytest.mark.parametrize(("lesson", "exercise", "says"), [
    (GOOD, EXERCISE, ""),
    (None, EXERCISE, "`notes: lesson` has no before, shows, skip, late, goes_wrong, ask"),
    ("as words", EXERCISE, "`notes: lesson` has no before, shows"),
    ({**GOOD, "minutes": 3}, EXERCISE, "`notes: lesson` may not have minutes"),
    (GOOD, {"minutes": 1}, "`notes: f` has no goes_wrong, ask; it must have minutes, goes_wrong"),
    (GOOD, None, "`notes: f` has no minutes"),
    ({**GOOD, "shows": []}, EXERCISE, "`shows` names no cell"),
    ({**GOOD, "shows": [{"cell": "gone", "see": "b"}]}, EXERCISE, "'gone' is in 0 cells of code"),
    ({**GOOD, "skip": [{"cell": "e", "why": "b"}]}, EXERCISE, "`skip` names one cell by a piece"),
    ({**GOOD, "skip": ["shown = 1"]}, EXERCISE, "each of `skip` must be {cell: …, why: …}"),
])  # fmt: skip
def test_a_lesson_with_exercises_has_notes_for_its_instructor(tmp_path, lesson, exercise, says):
    notes = {key: value for key, value in (("lesson", lesson), ("f", exercise)) if value}
    sidecar = {"hints": {"f": ["a", "b"]}, "mistakes": {"f": {"k": "why?"}}, "notes": notes}
    write(tmp_path, "80", *CHECKED, sidecar=json.dumps(sidecar))
    if not says:
        validate_all(lessons(tmp_path))
        return
    with pytest.raises(BadInput) as told:
        validate_all(lessons(tmp_path))
    assert str(told.value).startswith("80_lesson80/lesson.yaml: ") and says in str(told.value)


# --- wrong answers ------------------------------------------------------------------------------


def test_a_wrong_answer_stands_beside_what_its_check_says():
    rows = table(find("07", SOURCES), "global_mean")
    said = find("07", SOURCES).sidecar["mistakes"]["global_mean"]
    assert len(rows) == len(said)
    by_code = dict(rows)
    assert by_code["without `/ count`"] == readable(said["sum_only"])
    assert by_code["`/ count` → `/ dist.get_world_size()`"] == readable(said["by_ranks"])


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_every_exercise_has_its_table_right_below_it_and_most_answers_are_code(lesson):
    texts = sources_of(lesson)
    code = total = 0
    for one in exercises(lesson):
        place = next(i for i, text in enumerate(texts) if f"wrong answers to {one.name}," in text)
        above = [text for text in texts[:place] if not text.startswith("<details>")]
        assert re.search(rf"^(def|class) {one.name}\b", above[-1], re.M)
        rows = table(lesson, one.name)
        assert [row[1] for row in rows] == [
            readable(text).replace("|", "\\|")
            for text in lesson.sidecar["mistakes"][one.name].values()
        ]
        assert all(len(row) == 2 and row[0] for row in rows), one.name
        for hint in lesson.sidecar["hints"][one.name]:
            assert " ".join(hint.split()) in texts[place]
        code += sum("`" in row[0] for row in rows)
        total += len(rows)
    # An answer that a helper makes, or a family of answers, has only a name: most in lesson 25.
    assert code >= total / 5, f"{code} of {total}"


@pytest.mark.parametrize(("template", "read"), [
    ("You got {got:.2f} of {n}.", "You got *got* of *n*."),
    ("{n - 1} rank{'s' if n > 2 else ''}", "*n - 1* ranks"),
    ("braces {{}} and a | bar", "braces {} and a | bar"),
    ("`{got}` is code, {want} is not", "`got` is code, *want* is not"),
])  # fmt: skip
def test_a_sentence_shows_where_it_is_filled(template, read):
    assert readable(template) == read


def test_programs_that_are_words_functions_constants_and_neighbours_are_read(tmp_path):
    sentences = dict.fromkeys(
        ("words", "code", "long", "made", "by", "far", "family", "none"), "why?"
    )
    write(tmp_path, "80", sidecar=json.dumps({"mistakes": {"f": sentences}}))
    room = find("80", tmp_path).room
    (room / "exercises").mkdir()
    (room / "bank").mkdir()
    (room / "exercises/one.py").write_text('''
from . import near
ADD, TAKE = "a + b", "a - b"
f = solution("f", globals())
def long_one(a):
    """Adds what nobody asked for."""
    for k in a:
        yield k
MISTAKES = [("words", {ADD: f"{TAKE} | 1"}), ("long", long_one), Mistake("family", when=len),
            ("made", make_one(3)), ("made", counts("a")), ("by", by("7"))]
def by(share):
    """Words put together."""
    size = f"size = {TAKE}"
    return {ADD: f"{size}; {share}"}
def counts(share):
    return {ADD: str(len(share))}
''')
    (room / "exercises/near.py").write_text(
        'g = solution("g", globals())\nFAR = ("far", {"x": ""})'
    )
    (room / "bank/one.py").write_text('ALSO_WRONG = [("code", lambda a: a), ("none", 3)]')
    rows = [row[0] for row in table(find("80", tmp_path), "f")]
    assert rows == [
        "`a + b` → `a - b \\| 1`", "`lambda a: a`", "Adds what nobody asked for.", "made",
        "`a + b` → `size = a - b; 7`", "in `g`: without `x`", "family", "none",
    ]  # fmt: skip


# --- tests before and after ---------------------------------------------------------------------


def test_both_tests_ask_the_same_with_other_numbers_and_right_letters():
    before, after = sheets.questions(0, SOURCES), sheets.questions(1, SOURCES)
    assert before.count("☐ **A**") == after.count("☐ **A**") == 5
    answers = sheets.answers(SOURCES)
    key = re.findall(r"^\| (\d) \| (\w) \| (\w) \|", answers, re.M)
    assert len(key) == 5 and len({letter for _, *both in key for letter in both}) > 2
    for text, place in ((before, 1), (after, 2)):
        blocks = re.split(r"^\*\*\d\.\*\*", text, flags=re.M)[1:]
        for row, block in zip(key, blocks, strict=True):
            assert re.search(rf"☐ \*\*{row[place]}\*\* \S", block)
    assert before != after
    # The third question: 2(N−1)/N · S
    n, mb = map(int, re.search(r"(\d+) ranks all-reduce (\d+) MB on a ring", before).groups())
    assert f"**{key[2][1]}** {2 * (n - 1) * mb // n} MB" in before
    n, mb = map(int, re.search(r"(\d+) ranks all-reduce (\d+) MB on a ring", after).groups())
    assert f"**{key[2][2]}** {2 * (n - 1) * mb // n} MB" in after


def test_a_question_that_cannot_be_redrawn_is_refused(tmp_path):
    (tmp_path / "path.yaml").write_text('test: [{lesson: "80", quiz: q, shows: x}]')
    write(tmp_path, "80", sidecar="quiz: [{id: q, question: a, options: []}]")
    with pytest.raises(BadInput, match="'q' of lesson 80; its quiz must have a question of that"):
        sheets.questions(0, tmp_path)
