"""Lesson 07 as a student has it: a real JupyterLab in a real browser, from Run All to the slider.

With DTLIB_SCREENSHOTS=book/images the pictures of the front page are taken anew:
DTLIB_SCREENSHOTS=book/images make test-slow PYTEST_FLAGS=tests/lessons/test_07_lab.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
NOTEBOOKS = ROOT / "notebooks/student"
PICTURES = os.environ.get("DTLIB_SCREENSHOTS")
END = 240_000  # milliseconds in which all cells have run, on cores that others share

pytestmark = [*needs_browser, pytest.mark.timeout(500)]

# The same mistake twice, written differently: the chunk that arrives is one too far to the right.
WRONG = """\
def ring_reduce_scatter(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        out, into = {numbers}
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        chunks[into].add_(arrived)
    return x"""
FIRST = WRONG.format(numbers="(rank - s) % n, (rank - s + 1) % n")
SECOND = WRONG.format(numbers="(rank - s) % n, (rank + 1 - s) % n")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab over the student's notebooks of 00 and 07."""
    names = ("00_start_here.ipynb", "07_ranks_and_collectives.ipynb")
    texts = {name: (NOTEBOOKS / name).read_text() for name in names}
    with serving(tmp_path_factory.mktemp("lab"), texts, PYTHONPATH=str(ROOT)) as lab:
        yield lab


def keep(first: Any, last: Any, name: str) -> None:
    if PICTURES:
        picture(first, last, ROOT / PICTURES / name)


def test_lesson_07_from_run_all_to_the_slider(lab: Lab) -> None:
    with opened(lab, "07_ranks_and_collectives.ipynb", scale=2, width=1250) as page:
        all_cells_run(page)
        the_ladder_is_walked_and_the_solution_accepted(page)
        a_wrong_answer_of_the_quiz_and_a_right_one(page)
        the_slider_moves_the_picture(page)


def all_cells_run(page: Any) -> None:
    run_all(page)
    last = code_cell(page, "learn.take_away()")
    last.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for(timeout=END)
    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").all_inner_texts()
    numbers = [int(re.sub(r"\D", "", prompt)) for prompt in prompts]
    assert numbers == list(range(1, len(prompts) + 1))
    assert page.get_by_text("Traceback").count() == 0


def the_ladder_is_walked_and_the_solution_accepted(page: Any) -> None:
    exercise = code_cell(page, "def ring_reduce_scatter(x):")
    check = code_cell(page, 'learn.check("ring_reduce_scatter"')
    said = check.locator(".dtlib-message")
    assert said.inner_text().startswith("… Not yet. ring_reduce_scatter is not written yet: write")

    answer(exercise, check, FIRST)
    assert said.inner_text().startswith("✗ Not yet. Chunk 0 is 101: rank 1 never got into it.")
    assert "Smallest case: 3 ranks" in said.inner_text()
    assert "Hint" not in said.inner_text()

    answer(exercise, check, SECOND)
    assert "Hint 1: Each step sends on the chunk that the step before" in said.inner_text()
    assert 'You may look at a solution now: learn.solution("ring' in said.inner_text()
    keep(exercise, check, "lesson_07_check.png")

    helped = new_cell_below(check)
    paste(helped, 'learn.hint("ring_reduce_scatter")\nlearn.solution("ring_reduce_scatter")')
    run(helped)
    helped.get_by_text("Hint 1 of 2.").wait_for()
    solution = helped.locator("details[open] pre").inner_text()
    assert solution.startswith("def ring_reduce_scatter(x):")

    answer(exercise, check, solution)
    assert said.inner_text() == "✓ Passed. ring_reduce_scatter is right."


def answer(exercise: Any, check: Any, code: str) -> None:
    paste(exercise, code)
    run(exercise)
    run(check)
    check.locator(".dtlib-message").wait_for()


def a_wrong_answer_of_the_quiz_and_a_right_one(page: Any) -> None:
    question = page.get_by_role("group", name=re.compile("Which collective, and what does it"))
    form = page.locator("form", has=question)
    form.get_by_label("all_reduce, there is nothing cheaper").check()
    form.get_by_role("button", name="Answer").click()
    form.get_by_text("Not this one.").wait_for()
    form.get_by_role("button", name="Try again, with other numbers").click()
    form.get_by_label("reduce_scatter, half of it").check()
    form.get_by_role("button", name="Answer").click()
    form.get_by_text("Right.", exact=True).wait_for()
    assert form.get_by_text("Not this one.").count() == 0


def the_slider_moves_the_picture(page: Any) -> None:
    cell = code_cell(page, 'learn.what_if("ring_or_tree")')
    drawing = cell.locator("svg[role=img] path[stroke-width='2']").first
    before, said = drawing.get_attribute("d"), cell.locator("p[role=status]").inner_text()
    slider = cell.get_by_label("Latency α")
    slider.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    cell.locator("output", has_text="30 µs").wait_for()
    page.wait_for_function(
        "([path, before]) => path.isConnected === false || path.getAttribute('d') !== before",
        arg=[drawing.element_handle(), before],
    )
    assert drawing.get_attribute("d") != before
    assert cell.locator("p[role=status]").inner_text() != said
    keep(cell, cell, "lesson_07_what_if.png")


def test_a_cell_on_four_ranks_in_lesson_00(lab: Lab) -> None:
    with opened(lab, "00_start_here.ipynb", scale=2, width=1250) as page:
        run(code_cell(page, "from dtlib import learn"))
        who, total = code_cell(page, "I am rank"), code_cell(page, "before = x.item()")
        run(who)
        run(total)
        for rank in range(4):
            who.get_by_text(f"I am rank {rank} of 4, process ").wait_for()
            total.get_by_text(f"brought {10**rank}, has 1111").wait_for()
        keep(who, total, "lesson_00_ranks.png")
