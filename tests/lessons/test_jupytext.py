"""jupytext reads the cells of every lesson as our own reader does.

Our reader is the one that knows stubs and solutions, and it loads in no time. An author may open a
`lesson.py` with jupytext, in JupyterLab or an editor, and must find the same notebook there.
"""

from pathlib import Path

import jupytext
import pytest

from dtlib.learn.source import Lesson, lessons

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lessons_src"
TEMPLATE = Path(__file__).parents[2] / "lessons_src" / "NN_name" / "lesson.py"
SOURCES = [*lessons(), *lessons(FIXTURES), Lesson(TEMPLATE)]


@pytest.mark.parametrize("lesson", SOURCES, ids=lambda lesson: lesson.number)
def test_jupytext_reads_the_same_cells(lesson: Lesson) -> None:
    notebook = jupytext.reads(lesson.text, fmt="py:percent")
    theirs = [(one.cell_type, one.source, one.metadata.get("tags", [])) for one in notebook.cells]
    assert [(one.kind, one.text, one.tags) for one in lesson.cells] == theirs
