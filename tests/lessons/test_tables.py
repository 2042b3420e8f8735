"""Tables of lessons: made from headers and path.yaml, and no lesson in them that is not there."""

import json
from pathlib import Path

import pytest
from lesson_sources import write

from dtlib import strategies
from dtlib.errors import BadInput
from dtlib.learn.source import find
from dtlib.lessons import tables
from dtlib.lessons.build import build_notebooks, derive

COURSE = """
parts:
  - {title: First, lessons: ["00", "01"]}
  - {title: Nothing yet, lessons: ["02"]}
path: ["01", "02", "00"]
routes:
  - {have: a day, stops: {"00": split, "02": wait, "01": add}}
  - {have: a week, about: the path, days: [["01", "02"], ["02"], ["00"]]}
  - {have: time, about: pick}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two lessons of a course that plans three, and a README that shows them."""
    folder = tmp_path / "lessons_src"
    write(folder, "00", "# %% [markdown]\n# Go:\n#\n# {{lessons: routes}}", title="Start")
    write(folder, "01", title="Go on", does="walk, then run")
    (folder / "path.yaml").write_text(COURSE)
    (tmp_path / "README.md").write_text(
        "Before\n<!-- lessons: table -->\nold\n<!-- lessons: end -->\nAfter\n"
    )
    return folder


def test_a_page_is_written_between_its_marks_and_compared_by_check(sources: Path) -> None:
    notebooks = sources.parent / "notebooks"
    page = sources.parent / "README.md"
    assert page in build_notebooks(sources, notebooks, check=True)
    assert "old" in page.read_text()
    assert page in build_notebooks(sources, notebooks)
    text = page.read_text()
    assert text.startswith("Before\n<!-- lessons: table -->\n| | title")
    assert text.endswith("| laptop |\n<!-- lessons: end -->\nAfter\n")
    row = "| [01](notebooks/student/01_lesson01.ipynb) | Go on | walk, then run | 1 | laptop |"
    assert row in text
    assert build_notebooks(sources, notebooks, check=True) == []


def test_path_parts_and_strategies_are_what_is_there(sources: Path) -> None:
    assert tables.made("strategies", sources) == ", ".join(sorted(strategies.available()))
    assert tables.made("path", sources) == "01 → 00"
    assert tables.made("parts", sources).splitlines()[2:] == ["| First | 00 Start; 01 Go on |"]


def test_a_lesson_shows_the_routes_through_the_lessons_that_are_there(sources: Path) -> None:
    cells = json.loads(derive(find("00", sources), "student"))["cells"]
    text = "".join(cells[-1]["source"])
    assert text.splitlines()[4:] == [
        "| a day | 00, 01 (2 min): split, add |",
        "| a week | the path: 01 (1 min) · 00 (1 min) |",
        "| time | pick |",
    ]


def test_the_address_and_the_durations_come_from_one_file_each(sources: Path) -> None:
    project, durations = sources.parent / "pyproject.toml", sources.parent / "book/durations.yaml"
    project.write_text('[project.urls]\nRepository = "https://git.school.edu/gpu/course.git"\n')
    clone = "```bash\ngit clone https://git.school.edu/gpu/course.git\ncd course\n```"
    assert tables.made("address", sources) == clone
    durations.parent.mkdir()
    test = "test: {seconds: 700, at: abc, note: all}"
    durations.write_text(f"machine: a laptop\ncommands:\n  {test}\n")
    said = tables.made("durations", sources).splitlines()
    assert said[2:] == ["| `make test` | 12 min | all | abc |", "", "Measured on a laptop."]


def test_an_unknown_table_is_refused(sources: Path) -> None:
    with pytest.raises(BadInput, match="no table of lessons 'tabel'; choose from table, path"):
        tables.made("tabel", sources)
