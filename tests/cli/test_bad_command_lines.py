"""Command lines that people get wrong: no traceback, the right code, nothing started or lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dtlib import cli
from dtlib.cli.commands import COMMANDS
from dtlib.ranks import launcher, processes

LINES = [
    line
    for line in Path(__file__).with_name("bad_command_lines.txt").read_text().splitlines()
    if not line.startswith("#")
]


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that lies in a folder."""
    found = sorted(folder.rglob("*"))
    return {str(p): p.read_bytes() if p.is_file() else None for p in found}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("all of it\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text("{}")
    (tmp_path / "x.yaml").write_text("task: text\nstepps: 3\n")
    (tmp_path / "list.json").write_text("[1]\n")
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "text.txt").write_bytes("café au lait\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    for module, name in ((launcher, "launch"), (processes, "start")):
        monkeypatch.setattr(module, name, None)  # calling it would be a TypeError
    return tmp_path


def test_the_list_has_sixty_lines_and_every_command():
    assert len(LINES) >= 60
    assert {line.split()[1] for line in LINES} >= set(COMMANDS)


@pytest.mark.parametrize("line", LINES)
def test_no_traceback_the_right_code_nothing_started_nothing_lost(line, capsys, place):
    code, *words = line.split()
    before = tree(place)
    assert cli.main(words) == int(code)
    said = capsys.readouterr().err
    assert re.match(r"dtlib: .+[.?]\n", said) and "Traceback" not in said
    assert tree(place) == before


@pytest.mark.parametrize(("line", "words"), [
    ("train text --out=", "out is empty; name a folder, or leave it out."),
    ("train text --seed 99999999999999999999999", "seed is 99999999999999999999999; it must be"),
    ("train text --lr-floor 2", "lr_floor is 2.0; it must be at most 1."),
    ("train text --device gpu", "Did you mean 'cuda'?"),
    ("train text --max-length 65", "which is 64 tokens; use at most 64."),
    ("lessons lst", "choose from list, "),
    ("lessons lst", "Did you mean 'list'?"),
])  # fmt: skip
def test_a_hurried_user_is_told_what_to_type(line, words, capsys):
    assert cli.main(line.split()) == 2
    assert words in capsys.readouterr().err
