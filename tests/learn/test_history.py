"""What is kept beside the notebooks, with two notebooks open at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from dtlib.learn import history

pytestmark = pytest.mark.usefixtures("own_folder")
WRITER = """
import sys
from dtlib.learn import history
me = sys.argv[1]
for i in range(20):
    history.add_run({"lesson": "90", "what": f"{me} {i}", "measured": i, "source": "measured"})
    with history.change("90_demo", "exercises", me) as entry:
        entry["n"] = entry.get("n", 0) + 1
    with history.change("90_demo", "exercises", "common") as entry:
        entry["n"] = entry.get("n", 0) + 1
"""


def test_two_notebooks_at_once_lose_nothing() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(history.runs()) == 60
    assert history.read("90_demo", "exercises", "common") == {"n": 60}
    assert {p.name for p in Path.cwd().iterdir()} == {".dtlib", "my_runs.csv"}


def test_the_same_row_replaces_the_one_before() -> None:
    for measured, source in [(1, "measured"), (2, "measured"), (3, "simulated")]:
        history.add_run(
            {"lesson": "90", "what": "speed, in words", "measured": measured, "source": source}
        )
    rows = history.runs()
    assert [(r["what"], r["measured"]) for r in rows] == [
        ("speed, in words", "2"),
        ("speed, in words", "3"),
    ]
    assert list(rows[0]) == ["lesson", "what", "predicted", "measured", "unit", "source"]


def test_a_table_that_somebody_edited_stops_no_lesson() -> None:
    Path("my_runs.csv").write_text("lesson,measured,mood\n07\n")
    assert history.runs()[0]["what"] == ""
    history.add_run({"lesson": "90", "what": "speed", "measured": 1, "source": "measured"})
    assert [row["lesson"] for row in history.runs()] == ["07", "90"]


@pytest.mark.parametrize("text", ["{", "[]", '{"90_demo": 3}', '{"90_demo": {"exercises": []}}'])
def test_a_file_that_somebody_broke_stops_no_lesson(text: str) -> None:
    Path(".dtlib").mkdir()
    Path(".dtlib/progress.json").write_text(text)
    assert history.read("90_demo", "exercises", "double") == {}
    assert history.read("90_demo", "exercises") == {}
    with history.change("90_demo", "exercises", "double") as entry:
        entry["passed"] = True
    assert history.read("90_demo", "exercises", "double") == {"passed": True}
    assert Path(".dtlib/progress.json.bak").read_text() == text


def test_progress_that_an_editor_saved_with_a_mark_is_read() -> None:
    Path(".dtlib").mkdir()
    Path(".dtlib/progress.json").write_bytes(b'\xef\xbb\xbf{"90_demo": {"exercises": {}}}')
    with history.change("90_demo", "exercises", "double") as entry:
        entry["passed"] = True
    assert not Path(".dtlib/progress.json.bak").exists()


HEAD = "lesson,what,predicted,measured,unit,source\n"
ROWS = '00,"time, 1 rank",2,3.5,s,measured\n07,größe,1,1.2,µs,measured\n'
SEMICOLONS = "sep=;\n" + HEAD.replace(",", ";")
SEMICOLONS += '0;time, 1 rank;2;3,5;s;measured\r\n7;"größe";1;1,2;µs;measured;\r\n;;;;;;\n'
NOTES = HEAD.replace(",unit", ",my note,unit")
NOTES += '00,"time, 1 rank",2,3.5,loud,s,measured,bare\n07,größe,1,1.2,"on, battery",µs,measured\n'


@pytest.mark.parametrize(
    ("content", "copied"),
    [
        ((HEAD + ROWS).encode(), False),
        ((HEAD + ROWS).replace("\n", "\r\n").encode("utf-8-sig"), False),
        ((HEAD + ROWS).encode("cp1252"), True),
        ((HEAD + ROWS).replace('"', "").replace(", 1", "; 1").replace(",", "\t")
         .replace(";", ",").encode("utf-16"), True),
        (SEMICOLONS.encode("utf-8-sig"), True),
        (SEMICOLONS.encode("cp1252"), True),
        (NOTES.encode(), False),
    ],
    ids=["plain", "mark and CRLF", "cp1252", "utf-16 tabs", "semicolons", "both", "own columns"],
)  # fmt: skip
def test_what_a_spreadsheet_saved_keeps_every_row(content: bytes, copied: bool, capsys) -> None:
    path = Path("my_runs.csv")
    path.write_bytes(content)
    row = {"lesson": "07", "what": "größe", "measured": 9, "unit": "µs", "source": "measured"}
    for _ in range(2):
        history.add_run(row)
    assert [tuple(row[c] for c in history.COLUMNS) for row in history.runs()] == [
        ("00", "time, 1 rank", "2", "3.5", "s", "measured"),
        ("07", "größe", "", "9", "µs", "measured"),
    ]
    if content == NOTES.encode():
        assert [row["my note"] for row in history.runs()] == ["loud", "on, battery"]
        assert path.read_text().splitlines()[1].endswith(",bare")
    copy = Path("my_runs.csv.bak")
    assert (copy.read_bytes() if copy.exists() else None) == (content if copied else None)
    assert capsys.readouterr().out.count("my_runs.csv.bak") == copied


@pytest.mark.parametrize(
    "content",
    [b"Lektion;gemessen\n7;1\n", HEAD.encode() + b'07,"open,1\n', b"lesson,what\n07,\x00\x01\n"],
)
def test_what_is_not_understood_is_kept_beside(content: bytes, capsys) -> None:
    path = Path("my_runs.csv")
    for number in ("", "2"):  # a second such file takes no copy's place
        content += number.encode()
        path.write_bytes(content)
        assert history.runs() == []
        history.add_run({"lesson": "07", "what": "a", "source": "measured"})
        assert Path(f"my_runs.csv.bak{number}").read_bytes() == content
        assert f"my_runs.csv.bak{number}." in capsys.readouterr().out
        assert [row["what"] for row in history.runs()] == ["a"]
