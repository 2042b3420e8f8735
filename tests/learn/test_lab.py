"""A student's first minutes in a real JupyterLab, in a real browser."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtlib.learn.source import find
from dtlib.lessons.build import derive
from tests.lab import Lab, needs_browser, opened, run_all, serving

FIXTURES = Path(__file__).parents[1] / "fixtures"

pytestmark = [*needs_browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab over the demo lesson's student notebook."""
    lesson = find("90", FIXTURES / "lessons_src")
    env = {"DTLIB_LESSONS": str(FIXTURES / "lessons_src"), "PYTHONPATH": str(FIXTURES)}
    notebooks = {"90_demo.ipynb": derive(lesson, "student")}
    with serving(tmp_path_factory.mktemp("lab"), notebooks, **env) as lab:
        yield lab


@pytest.fixture
def page(lab: Lab) -> Iterator[Any]:
    """The notebook, all of its cells run."""
    with opened(lab, "90_demo.ipynb") as page:
        run_all(page)
        page.get_by_text("Take-away.").wait_for()
        yield page


def test_predict_answer_and_move_by_keyboard(page: Any, lab: Lab) -> None:
    progress = lab.folder / ".dtlib/progress.json"
    cells = page.locator(".jp-Notebook > * .jp-Cell, .jp-Notebook .jp-Cell").count()

    page.get_by_label("Your number:").focus()
    page.keyboard.type("6")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # sure
    page.keyboard.press("ArrowDown")  # JupyterLab would move to the next cell
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Committed: 6 apples (unsure).").wait_for()

    page.get_by_role("group", name="What is 3 + 3?").get_by_label("6", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("3 twice.").wait_for()

    page.get_by_label("Slope").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("At 4 it is 20.").wait_for()

    assert page.locator(".jp-Notebook > * .jp-Cell, .jp-Notebook .jp-Cell").count() == cells
    until = time.monotonic() + 20
    while time.monotonic() < until:
        kept = json.loads(progress.read_text())["90_demo"]
        if "quiz" in kept and "predictions" in kept:
            break
        time.sleep(0.2)
    assert kept["predictions"]["result"]["value"] == 6
    assert kept["predictions"]["result"]["sure"] is False
    assert kept["quiz"]["sum"] == {"tries": 1, "right": True}


def test_a_prediction_survives_the_kernel(page: Any) -> None:
    # The page was opened anew and all cells ran in a fresh session or the kept one.
    page.get_by_text("Committed: 6 apples (unsure).").wait_for()
    assert page.get_by_role("button", name="Commit").is_disabled()
    assert page.get_by_text("you predicted (unsure)").count() == 1
