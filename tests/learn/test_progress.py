"""What is kept beside the notebooks, with two notebooks open at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from dtlib.learn import progress

pytestmark = pytest.mark.usefixtures("own_folder")
WRITER = """
import sys
from dtlib.learn import progress
me = sys.argv[1]
for i in range(20):
    progress.add_run({"lesson": "90", "what": f"{me} {i}", "measured": i, "source": "measured"})
    with progress.change("90_demo", "exercises", me) as entry:
        entry["n"] = entry.get("n", 0) + 1
    with progress.change("90_demo", "exercises", "common") as entry:
        entry["n"] = entry.get("n", 0) + 1
"""


def test_two_notebooks_at_once_lose_nothing() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(progress.runs()) == 60
    assert progress.read("90_demo", "exercises", "common") == {"n": 60}
    assert {p.name for p in Path.cwd().iterdir()} == {".dtlib", "my_runs.csv"}


def test_the_same_row_replaces_the_one_before() -> None:
    for measured, source in [(1, "measured"), (2, "measured"), (3, "simulated")]:
        progress.add_run(
            {"lesson": "90", "what": "speed, in words", "measured": measured, "source": source}
        )
    rows = progress.runs()
    assert [(r["what"], r["measured"]) for r in rows] == [
        ("speed, in words", "2"),
        ("speed, in words", "3"),
    ]
    assert list(rows[0]) == ["lesson", "what", "predicted", "measured", "unit", "source"]


def test_a_table_that_somebody_edited_stops_no_lesson() -> None:
    Path("my_runs.csv").write_text("lesson,measured,mood\n07\n")
    assert progress.runs()[0]["what"] == ""
    progress.add_run({"lesson": "90", "what": "speed", "measured": 1, "source": "measured"})
    assert [row["lesson"] for row in progress.runs()] == ["07", "90"]


@pytest.mark.parametrize("text", ["{", "[]", '{"90_demo": 3}', '{"90_demo": {"exercises": []}}'])
def test_a_file_that_somebody_broke_stops_no_lesson(text: str) -> None:
    Path(".dtlib").mkdir()
    Path(".dtlib/progress.json").write_text(text)
    assert progress.read("90_demo", "exercises", "double") == {}
    assert progress.read("90_demo", "exercises") == {}
    with progress.change("90_demo", "exercises", "double") as entry:
        entry["passed"] = True
    assert progress.read("90_demo", "exercises", "double") == {"passed": True}
