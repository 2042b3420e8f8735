"""Lessons as a student has them: a real JupyterLab in a real browser, from Run All to the slider.

With DTLIB_EVERY=1 all lessons are opened.
With DTLIB_SCREENSHOTS=book/images the pictures of the front page are taken anew:
DTLIB_SCREENSHOTS=book/images make test-slow PYTEST_FLAGS="tests/lessons/test_in_lab.py -k 07"
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import banks
import pytest

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from tests.lab import (
    Lab,
    code_cell,
    needs_browser,
    new_cell_below,
    opened,
    paste,
    picture,
    run,
    run_all,
    serving,
)

ROOT = Path(__file__).parents[2]
PICTURES = os.environ.get("DTLIB_SCREENSHOTS")
END = 240_000  # milliseconds in which all cells have run, on cores that others share
LADDERS = banks.ladders()
# `make lessons` runs every notebook; a browser opens some of them, and all when asked
OPENED = LADDERS if os.environ.get("DTLIB_EVERY") else ("00", "01")
if PICTURES:
    OPENED = sorted({*OPENED, "07"})

pytestmark = [*needs_browser, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab over the student's notebooks."""
    files = sorted((ROOT / "notebooks/student").glob("*.ipynb"))
    texts = {file.name: file.read_text() for file in files}
    with serving(tmp_path_factory.mktemp("lab"), texts, PYTHONPATH=str(ROOT)) as lab:
        yield lab


def keep(first: Any, last: Any, name: str) -> None:
    if PICTURES and name:
        picture(first, last, ROOT / PICTURES / name)


@pytest.mark.parametrize("number", OPENED)
def test_a_lesson_from_its_prediction_to_its_slider(lab: Lab, number: str) -> None:
    lesson = source.find(number)
    with opened(lab, f"{lesson.stem}.ipynb", scale=2, width=1250) as page:
        run(code_cell(page, f'learn.start("{number}")'))
        said = a_prediction_is_committed(page, lesson)
        all_cells_run(page)
        assert page.get_by_text("you predicted (unsure)").count() == 1, said
        the_ladder_is_walked_and_the_solution_accepted(page, lesson)
        a_wrong_answer_of_the_quiz_and_a_right_one(page, lesson)
        the_slider_moves_the_picture(page, lesson)
        if number == "00":
            a_cell_runs_on_four_ranks(page)


def a_prediction_is_committed(page: Any, lesson: source.Lesson) -> str:
    key, spec = next(iter(lesson.sidecar["predictions"].items()))
    cell = code_cell(page, f'learn.predict("{key}")')
    run(cell)
    form = cell.locator(".dtlib-prediction")
    if spec.get("options"):
        form.locator("input[type=radio]").first.check()
    else:
        form.locator("input[type=number]").fill("3")
    form.get_by_label("unsure").check()
    form.get_by_role("button", name="Commit").click()
    form.get_by_text("Now run the cells below.").wait_for()
    return form.get_by_role("status").inner_text()


def all_cells_run(page: Any) -> None:
    """Run All; kept from the first cells is the prediction that was committed."""
    run_all(page)
    last = code_cell(page, "learn.take_away()")
    last.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for(timeout=END)
    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").all_inner_texts()
    numbers = [int(re.sub(r"\D", "", prompt)) for prompt in prompts]
    assert numbers == list(range(numbers[0], numbers[0] + len(prompts)))
    assert page.get_by_text("Traceback").count() == 0


def the_ladder_is_walked_and_the_solution_accepted(page: Any, lesson: source.Lesson) -> None:
    name, first, second = LADDERS[lesson.number]
    exercise = code_cell(page, f"def {name}(")
    check = code_cell(page, f'learn.check("{name}"')
    said = check.locator(".dtlib-message")
    assert said.inner_text().startswith(f"… Not yet. {name} is not written yet: write")

    answer(exercise, check, first)
    mistake = said.inner_text()
    assert mistake.startswith("✗ Not yet.") and "Smallest case: " in mistake
    assert "Hint" not in mistake

    answer(exercise, check, second)
    hint = " ".join(lesson.sidecar["hints"][name][0].split())
    assert said.inner_text().split("?")[0] == mistake.split("?")[0]
    assert f"Hint 1: {plain(hint)}" in plain(said.inner_text())
    assert f'You may look at a solution now: learn.solution("{name}")' in said.inner_text()
    keep(exercise, check, "lesson_07_check.png" if lesson.number == "07" else "")

    helped = new_cell_below(check)
    paste(helped, f'learn.hint("{name}")\nlearn.solution("{name}")')
    run(helped)
    helped.get_by_text("Hint 1 of 2.").wait_for()
    solution = helped.locator("details[open] pre").inner_text()
    assert f"def {name}(" in solution

    answer(exercise, check, solution)
    assert said.first.inner_text().startswith(f"✓ Passed. {name} is right.")


def plain(text: str) -> str:
    """Text without the signs that Markdown turns into type."""
    return re.sub(r"\s+", " ", re.sub(r"[`*]", "", text))


def answer(exercise: Any, check: Any, code: str) -> None:
    paste(exercise, code)
    run(exercise)
    run(check)
    check.locator(".dtlib-message").first.wait_for()


def a_wrong_answer_of_the_quiz_and_a_right_one(page: Any, lesson: source.Lesson) -> None:
    section = page.locator(".dtlib-quiz > section").first
    item = drawn(lesson.sidecar["quiz"], [])[0]
    for turn, right in ((0, False), (1, True)):
        options = item["variants"][turn]["options"]
        place = next(i for i, option in enumerate(options) if option["right"] is right)
        section.locator("input[type=radio]").nth(place).check()
        section.get_by_role("button", name="Answer").click()
        section.get_by_text("Right." if right else "Not this one.", exact=True).wait_for()
        if not right:
            section.get_by_role("button", name=re.compile("Try again")).click()


def the_slider_moves_the_picture(page: Any, lesson: source.Lesson) -> None:
    for name in lesson.sidecar.get("what_if") or {}:
        cell = code_cell(page, f'learn.what_if("{name}")')
        form = cell.locator(".dtlib-what-if")
        drawing = form.locator("svg[role=img]")
        before, said = drawing.inner_html(), form.locator("p[role=status]").inner_text()
        form.locator("input[type=range]").first.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_function(
            """([form, before, said]) =>
                 form.querySelector("svg[role=img]").innerHTML !== before
                 || form.querySelector("p[role=status]").innerText !== said""",
            arg=[form.element_handle(), before, said],
        )


def a_cell_runs_on_four_ranks(page: Any) -> None:
    who, total = code_cell(page, "I am rank"), code_cell(page, "before = x.item()")
    run(who)
    run(total)
    for rank in range(4):
        who.get_by_text(f"I am rank {rank} of 4, process ").wait_for()
        total.get_by_text(f"brought {10**rank}, has 1111").wait_for()
    keep(who, total, "lesson_00_ranks.png")
