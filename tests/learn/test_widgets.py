"""The forms: readable without a kernel, nothing from a network, and working in a real browser."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe
import pytest
from lesson_sources import write
from processes import run

from dtlib.learn import rooms, session, what_if, widgets
from dtlib.learn.quiz import drawn
from dtlib.learn.source import find

pytestmark = pytest.mark.usefixtures("own_folder")
FIXTURES = Path(__file__).parents[1] / "fixtures"
SIDECAR = find("90", FIXTURES / "lessons_src").sidecar
SLOPE = "{name: slope, label: Slope, min: 1, max: 8, step: 1, value: 4}"
CHROMIUM = "/usr/bin/chromium"


def forms() -> dict[str, widgets.Form]:
    import inspect

    demo = rooms.module(find("90", FIXTURES / "lessons_src"), "exercises")
    entry = SIDECAR["what_if"]["line"]
    spec = {"title": entry["title"], "inputs": entry["inputs"], "function": "line"}
    source = inspect.getsource(demo.line)
    return {
        "number": widgets.PredictionForm("90_demo", "result", SIDECAR["predictions"]["result"]),
        "options": widgets.PredictionForm("90_demo", "grows", SIDECAR["predictions"]["grows"]),
        "quiz": widgets.QuizForm("90_demo", drawn(SIDECAR["quiz"], [])),
        "what_if": widgets.WhatIfForm(spec, demo.line, source),
    }


def test_every_form_has_a_text_and_a_static_html() -> None:
    for name, form in forms().items():
        bundle = form._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        assert set(data) >= {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
        assert data["text/plain"] == form.plain() != "", name
        assert "object at 0x" not in data["text/plain"]


def test_static_html_of_the_quiz_folds_every_reason() -> None:
    html = forms()["quiz"].static()
    assert html.count("<details>") == 5
    assert "<code>0</code>" in html


def test_nothing_is_fetched() -> None:
    for path in Path(widgets.__file__).parent.joinpath("js").glob("*.js"):
        text = path.read_text("utf-8")
        assert set(re.findall(r"https?://[^\"'` ]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert "import(" not in text or "COURSE_PYTHON" in text


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("name", ["prediction", "quiz", "what_if"])
def test_scripts_are_modules_that_render(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.mjs"
    path.write_text(widgets._script(name))
    code = f"import w from {json.dumps(str(path))}; console.log(typeof w.render)"
    done = run("node", "--input-type=module", "-e", code)
    assert done.stdout.strip() == "function", done.stderr


POWER = {"min": 0, "max": 40, "step": 1}
SAID = [
    ({"words": ["off", "on"], "min": 0, "step": 1}, 1, "on"),
    ({"base": 10, "unit": "bytes", **POWER}, 6, "1 MB"),
    ({"base": 10, "unit": "bytes", **POWER}, 3.3, "2 kB"),
    ({"base": 10, "unit": "bytes", **POWER}, 8.9999, "1 GB"),
    ({"base": 2, **POWER}, 10, "1,024"),
    ({"base": 2, **POWER}, -22, "2⁻²²"),
    ({"unit": "GB", **POWER}, 1200, "1,200 GB"),
    ({"unit": None, **POWER}, 0.5, "0.5"),
]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_slider_says_what_people_say(tmp_path: Path) -> None:
    path = tmp_path / "what_if.mjs"
    path.write_text(widgets._script("what_if") + "\nexport { spoken, digits };")
    code = (
        f"import {{ spoken, digits }} from {json.dumps(str(path))};"
        f"console.log(JSON.stringify([{json.dumps([one[:2] for one in SAID])}"
        ".map(([slider, value]) => spoken(slider, value)),"
        "[1234567.8, 0.123456, 3, 12.0001].map(digits)]))"
    )
    done = run("node", "--input-type=module", "-e", code)
    assert json.loads(done.stdout) == [
        [said for *_, said in SAID],
        ["1,234,568", "0.123", "3", "12"],
    ]


def test_the_text_of_a_what_if_says_words_too() -> None:
    sliders, values, said = zip(*SAID[:2], strict=True)
    assert [widgets._spoken(s, v) for s, v in zip(sliders, values, strict=True)] == [
        said[0], "10^6 bytes",
    ]  # fmt: skip


def test_a_what_if_answers_a_move() -> None:
    form = forms()["what_if"]
    assert isinstance(form, widgets.WhatIfForm)
    assert form.plain() == "A line (Slope = 4): At 4 it is 16."
    form.settings = {"slope": 2}
    assert form.result["says"] == "At 4 it is 8."
    assert "def line(slope)" in form.source


@pytest.mark.parametrize(("kernel", "travels"), [("", True), (", kernel: true", False)])
def test_the_source_of_a_what_if_travels_unless_it_needs_a_kernel(
    kernel: str, travels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[widgets.WhatIfForm] = []
    monkeypatch.setitem(what_if.__globals__, "show", shown.append)
    entry = f"{{title: A line, function: lesson.what_if:line, inputs: [{SLOPE}]{kernel}}}"
    room = write(tmp_path / f"src{kernel}", "70", sidecar=f"what_if: {{line: {entry}}}").parent
    (room / "what_if.py").write_text(
        'def line(slope):\n    return {"curves": {}, "says": f"At 4 it is {4 * slope}."}\n'
    )
    monkeypatch.setenv("DTLIB_LESSONS", str(room.parent))
    session.start("70")
    what_if("line")
    assert ("def line(slope)" in shown[0].source) is travels
    assert shown[0].plain() == "A line (Slope = 4): At 4 it is 16."


PAGE = """
<!doctype html><html lang="en"><title>form</title><main id="here"></main>
<script type="module">
BEFORE
const state = STATE;
const listeners = {};
window.saved = 0;
const model = {
  get: (key) => state[key],
  set: (key, value) => { state[key] = value; (listeners[key] || []).forEach((f) => f()); },
  on: (event, f) => { const key = event.replace("change:", ""); (listeners[key] ??= []).push(f); },
  save_changes: () => { window.saved += 1; },
};
window.state = state;
const url = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
const module = await import(url);
module.default.render({ model, el: document.getElementById("here") });
window.ready = true;
</script></html>
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield chromium
        chromium.close()


def open_form(browser: Any, form: widgets.Form, before: str = "") -> Any:
    names = ("spec", "answer", "questions", "answers", "settings", "result", "source")
    state = {name: getattr(form, name) for name in names if form.has_trait(name)}
    page = browser.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    html = (
        PAGE.replace("BEFORE", before)
        .replace("STATE", json.dumps(state))
        .replace("SCRIPT", json.dumps(str(form._esm)))
    )
    page.set_content(html)
    page.wait_for_function("window.ready")
    return page


@pytest.mark.slow
def test_a_number_is_predicted_by_keyboard_alone(browser: Any) -> None:
    page = open_form(browser, forms()["number"])
    page.keyboard.press("Tab")
    page.keyboard.type("5.5")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # sure
    page.keyboard.press("ArrowDown")  # unsure
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button
    status = page.get_by_role("status").inner_text()
    assert status == "Committed: 5.5 apples (unsure). Now run the cells below."
    assert page.evaluate("state.answer") == {"value": 5.5, "sure": False}
    assert page.evaluate("saved") == 1
    assert page.get_by_label("Your number:").is_disabled()
    assert page.errors == []


@pytest.mark.slow
def test_a_committed_option_is_shown_again(browser: Any) -> None:
    form = forms()["options"]
    form.set_trait("answer", {"value": "a little", "sure": True})
    page = open_form(browser, form)
    assert page.get_by_label("a little").is_checked()
    assert page.get_by_label("sure", exact=True).is_checked()
    assert page.get_by_role("button", name="Commit").is_disabled()


@pytest.mark.slow
def test_nothing_is_committed_without_an_answer(browser: Any) -> None:
    page = open_form(browser, forms()["options"])
    page.get_by_role("button", name="Commit").click()
    assert page.evaluate("saved") == 0


@pytest.mark.slow
def test_a_question_without_numbers_promises_no_others_and_stresses_a_word(browser: Any) -> None:
    option = {"text": "yes", "right": True, "why": "It *is*."}
    variant = {"text": "Is it so, *always*?", "output": "", "options": [option]}
    item = {"id": "so", "from": "07", "variants": [variant, variant]}
    page = open_form(browser, widgets.QuizForm("90_demo", [item]))
    assert page.locator("legend em").inner_text() == "always"
    page.get_by_label("yes").check()
    page.get_by_role("button", name="Answer").click()
    assert page.get_by_role("button", name="Try again", exact=True).is_visible()
    assert page.locator("[role=status] em").inner_text() == "is"
    assert page.errors == []


@pytest.mark.slow
def test_a_quiz_says_why_and_a_retry_changes_the_numbers(browser: Any) -> None:
    page = open_form(browser, forms()["quiz"])
    first = page.get_by_role("group", name="What is 3 + 3?")
    first.get_by_label("9", exact=True).check()
    first.get_by_role("button", name="Answer").click()
    assert "Not this one. That is the product." in page.get_by_role("status").first.inner_text()
    page.get_by_role("button", name="Try again, with other numbers").first.click()
    second = page.get_by_role("group", name="What is 4 + 4?")
    assert page.evaluate("document.activeElement.type") == "radio"
    second.get_by_label("8", exact=True).check()
    second.get_by_role("button", name="Answer").click()
    status = page.get_by_role("status").first.inner_text()
    assert "Right. 4 twice." in status and "Why not the others" in status
    assert page.evaluate("state.answers") == {"sum": {"tries": 2, "right": True}}
    assert page.errors == []


@pytest.mark.slow
def test_a_slider_moves_by_keyboard_and_the_table_says_the_same(browser: Any) -> None:
    page = open_form(browser, forms()["what_if"])
    assert page.get_by_role("img").get_attribute("aria-label") == "A line: At 4 it is 16."
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.settings") == {"slope": 5}
    assert page.get_by_label("Slope").get_attribute("aria-valuetext") == "5"
    page.get_by_text("The same as a table").click()
    cells = page.get_by_role("cell").all_inner_texts()
    assert cells == ["4", "8", "12", "16"]
    assert page.errors == []


@pytest.mark.slow
def test_a_page_keeps_sliders_that_need_ranks_for_jupyterlab(browser: Any) -> None:
    form = forms()["what_if"]
    form.set_trait("source", "")
    page = open_form(browser, form, "window.COURSE_PYTHON = 'http://nowhere/';")
    assert page.get_by_label("Slope").is_disabled()
    assert "open this lesson in JupyterLab (make lab)" in page.locator("main").inner_text()
    assert page.get_by_role("img").get_attribute("aria-label") == "A line: At 4 it is 16."
    # with a kernel they move
    page = open_form(browser, form)
    assert page.get_by_label("Slope").is_enabled()
    assert "JupyterLab" not in page.locator("main").inner_text()


@pytest.mark.slow
def test_a_page_that_may_not_load_python_says_what_to_do(browser: Any) -> None:
    page = open_form(browser, forms()["what_if"], "window.COURSE_PYTHON = 'data:nothing/';")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Python did not start in this page").wait_for()
    assert page.errors == []


@pytest.mark.slow
def test_a_page_keeps_a_prediction_and_says_so(browser: Any) -> None:
    site = "window.COURSE = { keep: (...kept) => { window.kept = kept; }, kept: () => null };"
    page = open_form(browser, forms()["options"], site)
    page.get_by_label("a little").check()
    page.get_by_label("sure", exact=True).check()
    page.get_by_role("button", name="Commit").click()
    status = page.get_by_role("status").inner_text()
    assert status == (
        "Committed: a little (sure). This browser keeps it, and shows it beside the measured "
        "result below."
    )
    assert page.evaluate("window.kept[2]") == {"value": "a little", "sure": True}


@pytest.mark.slow
def test_axe_finds_nothing_to_mend(browser: Any, tmp_path: Path) -> None:
    core = axe.script(tmp_path)
    for name, form in forms().items():
        page = open_form(browser, form)
        found = axe.violations(page, core, "document.getElementById('here')")
        assert [rule["id"] for rule in found] == [], name


WIDTHS = {"laptop": 1200, "phone": 375}


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_labels_of_a_what_if_do_not_overprint_and_stay_inside(browser: Any, width: int) -> None:
    def curves(slope: int) -> dict[str, Any]:
        names = ["a label of many words", "tree", "hierarchical ring"]
        lines = {name: [[1, 0], [100, 123456 + i]] for i, name in enumerate(names)}
        return {"curves": lines, "says": "so", "x": "bytes that are sent", "y": "time of it, µs"}

    spec = {"title": "Lines", "inputs": SIDECAR["what_if"]["line"]["inputs"], "function": "line"}
    page = open_form(browser, widgets.WhatIfForm(spec, curves, ""))
    page.set_viewport_size({"width": width, "height": 700})
    boxes = page.evaluate(
        """[...document.querySelectorAll("svg text")].map((t) => {
            const { x, y, right, bottom } = t.getBoundingClientRect();
            return [t.textContent, x, y, right, bottom]; })"""
    )
    x0, x1 = page.evaluate(
        """(({ x, right }) => [x, right])(document.querySelector("svg").getBoundingClientRect())"""
    )
    assert len(boxes) == 3 + 2 + 2 + 3
    for i, (text, left, top, right, bottom) in enumerate(boxes):
        assert x0 <= left and right <= x1, text
        for other, a, b, c, d in boxes[i + 1 :]:
            apart = right <= a or c <= left or bottom <= b + 3 or d <= top + 3  # 3: of a line's own
            assert apart, (text, other)


@pytest.mark.slow
def test_a_question_stands_inside_its_frame(browser: Any) -> None:
    for name in ("number", "quiz"):
        page = open_form(browser, forms()[name])
        frame, legend, label = (
            page.locator(one).first.bounding_box()
            for one in ("fieldset", "fieldset > legend", "fieldset > label")
        )
        assert legend["y"] > frame["y"] + 4
        assert legend["x"] > frame["x"]
        assert label["y"] >= legend["y"] + legend["height"]
