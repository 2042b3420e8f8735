"""Reading a lesson's source: cells, header, stubs, solutions."""

from pathlib import Path

import pytest
from lesson_sources import write
from processes import python

from dtlib.errors import BadInput
from dtlib.learn import source

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER = FIXTURES / "lessons_src"


def test_cells_keep_their_kind_tags_and_line() -> None:
    cells = source.parse('# %% [markdown] tags=["hint"]\n# One\n#\n# Two\n\n# %%\nx = 1\n\n\n')
    assert [(c.kind, c.tags, c.line) for c in cells] == [("markdown", ["hint"], 1), ("code", [], 6)]
    assert cells[0].text == "One\n\nTwo"
    assert cells[1].text == "x = 1"


def test_magic_written_as_a_comment_becomes_magic_and_no_cell_of_its_own() -> None:
    (cell,) = source.parse("# %%\n# %%ranks 4\nprint(rank)\n# 100 %d is no magic\n")
    assert cell.text == "%%ranks 4\nprint(rank)\n# 100 %d is no magic"


def test_a_line_that_only_looks_like_a_marker_is_refused() -> None:
    with pytest.raises(BadInput, match=r"line 2, '# %% \[md\]', begins no cell"):
        source.parse("# %%\n# %% [md]\n# prose")


def test_a_region_becomes_one_stub_line_with_its_indentation() -> None:
    text = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n\n    return y\n    ### END SOLUTION\n"
    assert source.stub(text) == "def f(x):\n    ...  # your code here"
    assert source.solved(text) == "def f(x):\n    y = x\n\n    return y"


def test_two_regions_become_two_stubs_and_what_is_between_stays() -> None:
    region = "    ### BEGIN SOLUTION\n    a()\n    ### END SOLUTION\n"
    text = f"def f():\n{region}    given()\n{region}"
    assert source.stub(text).count("your code here") == 2
    assert "given()" in source.stub(text)


def test_header_sidecar_parameters_and_definitions() -> None:
    lesson = source.find(90, FOLDER)
    assert lesson.header["title"] == "A lesson for the tests"
    assert lesson.parameters == {"times": 3}
    assert lesson.definition("double") == 'def double(x):\n    """Twice x."""\n    return 2 * x'
    assert "your code here" not in (lesson.definition("double", as_stub=True) or "")
    assert "return" not in (lesson.definition("double", as_stub=True) or "")
    assert lesson.definition("nothing") is None


@pytest.mark.parametrize("name", ["90", 90, "demo", "90_demo", "90_demo/"])
def test_a_lesson_is_found_by_number_stem_or_name(name: str | int) -> None:
    assert source.find(name, FOLDER).stem == "90_demo"


def test_an_unknown_lesson_or_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"there is no lesson 91; the lessons here are 90_demo\."):
        source.find("91", FOLDER)
    monkeypatch.setenv("DTLIB_LESSONS", "/nowhere/lessons_src")
    with pytest.raises(BadInput, match="looked for /nowhere/lessons_src"):
        source.sources_folder()


def test_bad_yaml_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "91_x" / "lesson.py"
    path.parent.mkdir()
    path.write_text("# %% [raw]\n# title: [\n")
    with pytest.raises(BadInput, match=r"91_x/lesson.py cannot be read as YAML .*\.$"):
        _ = source.Lesson(path).header
    path.write_text("# %% [markdown]\n# just prose\n")
    with pytest.raises(
        BadInput, match=r"91_x/lesson.py is not a source whose first cell is a YAML header"
    ):
        _ = source.Lesson(path).header


def test_importing_learn_loads_no_heavy_module() -> None:
    code = (
        "import sys, dtlib.learn, dtlib.lessons;"
        "print([m for m in ('torch', 'matplotlib', 'ipywidgets', 'IPython', 'papermill', 'yaml')"
        " if m in sys.modules])"
    )
    done = python("-c", code)
    assert done.stdout.strip() == "[]", done.stderr


def test_next_is_the_next_lesson_of_the_path_that_is_in_the_folder(tmp_path: Path) -> None:
    for number in ("00", "07", "09", "13"):
        write(tmp_path, number)
    (tmp_path / "path.yaml").write_text('path: ["00", "07", "01", "02", "08", "09"]')
    following = [lesson.next for lesson in source.lessons(tmp_path)]
    assert following == ["07", "09", None, None]  # 01, 02, 08 are missing; 13 is on the shelf
