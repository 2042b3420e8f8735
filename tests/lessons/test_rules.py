"""What every lesson owes its readers: objectives, exercises, a quiz, predictions, a figure."""

import ast
import inspect
import re

import pytest

from dtlib import learn
from dtlib.learn import show, source
from dtlib.learn.quiz import drawn
from dtlib.lessons.validate import calls

LESSONS = source.lessons()
LINES = 79  # columns of a lesson, which is read in a narrow notebook
NUMBERS = [lesson.number for lesson in LESSONS]


@pytest.fixture(params=LESSONS, ids=lambda lesson: lesson.number)
def lesson(request: pytest.FixtureRequest) -> source.Lesson:
    return request.param


def called(lesson: source.Lesson, function: str, tag: str = "") -> list[str]:
    """First arguments of the calls of a `learn` function, in cells with this tag or in all."""
    return [
        node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
        for cell in lesson.cells
        if cell.kind == "code" and (not tag or tag in cell.tags) and not cell.text.startswith("%%")
        for node in ast.walk(ast.parse(cell.text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "learn"
        and node.func.attr == function
    ]


def test_three_objectives_and_an_hour_for_the_core(lesson: source.Lesson) -> None:
    assert len(lesson.header["objectives"]) == 3
    notes, stretch = lesson.sidecar["notes"], set(called(lesson, "check", "stretch"))
    minutes = {name: notes[name]["minutes"] for name in lesson.sidecar["mistakes"]}
    assert sum(minutes.values()) == lesson.header["minutes"]["exercises"]
    core = sum(spent for name, spent in minutes.items() if name not in stretch)
    assert lesson.header["minutes"]["read"] + core < 60
    assert len(minutes) - len(stretch) >= 2


def test_every_exercise_has_two_hints_a_note_and_is_checked(lesson: source.Lesson) -> None:
    exercises = list(lesson.sidecar["mistakes"])
    assert sorted(called(lesson, "check")) == sorted(exercises)
    for name in exercises:
        assert len(lesson.sidecar["hints"][name]) == 2, name
        assert set(lesson.sidecar["notes"][name]) == {"minutes", "goes_wrong", "ask"}, name
    assert lesson.sidecar["notes"]["lesson"]


def test_every_prediction_is_asked_before_it_is_measured(lesson: source.Lesson) -> None:
    predictions = lesson.sidecar["predictions"]
    order = [(name, key) for name, key, _ in calls(lesson) if name in ("predict", "measured")]
    asked = [key for name, key in order if name == "predict"]
    assert sorted(asked) == sorted(predictions)
    for key in predictions:
        assert order.index(("predict", key)) < order.index(("measured", key)), key
    for key, spec in predictions.items():
        texts = [option["text"] for option in spec.get("options", [])]
        assert len(set(texts)) == len(texts) != 1, key
        assert all(option["why"] for option in spec.get("options", [])), key


def test_the_quiz(lesson: source.Lesson) -> None:
    """One question on one's own number, one from an earlier lesson, one output to read."""
    questions = drawn(lesson.sidecar["quiz"], [])
    assert 3 <= len(questions) <= 5
    for question in questions:
        for variant in question["variants"]:
            texts = [option["text"] for option in variant["options"]]
            assert len(set(texts)) == len(texts) > 1, texts
            assert not any(re.match(r"-\d", text) for text in texts), texts
            assert sum(option["right"] for option in variant["options"]) == 1, texts
            assert all(option["why"] for option in variant["options"]), texts
    if lesson.number == "00":
        return  # nothing was learnt or measured before it
    earlier = {question["from"] for question in questions} - {""}
    assert earlier and earlier <= set(NUMBERS) - {lesson.number}
    assert any(question["variants"][0]["output"] for question in questions)
    owned = [own for item in lesson.sidecar["quiz"] for own in (item.get("mine") or {}).values()]
    assert owned
    for own in owned:
        writer = source.find(own["lesson"])
        whats = [spec.get("what", key) for key, spec in writer.sidecar["predictions"].items()]
        assert own["what"] in whats or own["what"] in writer.text, own


def test_a_figure_of_the_students_own_run_has_a_table(lesson: source.Lesson) -> None:
    if lesson.number == "00":
        return  # its picture is the output of four ranks
    code = [cell.text for cell in lesson.cells if cell.kind == "code"]
    figures = [i for i, text in enumerate(code) if "plt.show()" in text]
    pictures = [text for text in code if re.search(r"^(display\()?[\w.]*draw\w*\(", text, re.M)]
    assert figures or pictures
    for i in figures:
        assert any("learn.table(" in text for text in code[max(0, i - 1) : i + 3]), code[i]


def test_a_table_or_a_picture_is_the_last_line_of_its_cell(lesson: source.Lesson) -> None:
    """Elsewhere Python throws its value away, and the reader never sees it."""
    for cell in lesson.cells:
        if cell.kind != "code" or cell.text.startswith("%%"):
            continue
        tree = ast.parse(cell.text)
        for node in ast.walk(tree):
            lost = isinstance(node, ast.Expr) and node is not tree.body[-1] and is_display(node)
            assert not lost, f"line {node.lineno} of this cell shows nothing:\n{cell.text}"


def is_display(line: ast.Expr) -> bool:
    """Whether a line is a call that shows what it returns, and does nothing else."""
    if not isinstance(line.value, ast.Call):
        return False
    name = ast.unparse(line.value.func)
    function = getattr(learn, name.removeprefix("learn."), None) if "learn." in name else None
    returns = inspect.signature(function).return_annotation if function else None
    return returns in ("Shown", show.Shown) or name.split(".")[-1].startswith("draw")


def test_sentences_and_whats_are_one_paragraph_that_asks(lesson: source.Lesson) -> None:
    for name, sentences in lesson.sidecar["mistakes"].items():
        for key, text in sentences.items():
            assert text.strip().endswith("?"), (name, key)
            assert len(text.split()) < 90, (name, key)


def test_lines_are_narrow(lesson: source.Lesson) -> None:
    for line in lesson.text.splitlines():
        bare = line.removeprefix("# ")
        assert len(line) <= LINES or bare.startswith("|") or "http" in line, line


def test_what_is_not_asked_of_a_reader_stays_out(lesson: source.Lesson) -> None:
    """No path of somebody's machine, no bare shell command, no word that belittles."""
    prose = "\n".join(cell.text for cell in lesson.cells if cell.kind == "markdown")
    assert not re.search(r"/(root|home|work|tmp)/", lesson.text)
    assert not re.search(r"\b(obviously|trivially|of course)\b", prose, re.IGNORECASE)
