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


YAML = {
    "broken": "task: text\nlr: [1,\nsteps: 3\n", "colon": "task: text\nsteps 3\nlr: 1\n",
    "utf16": "task: text\n", "empty": "", "list": "- text\n", "number": "3\n",
}  # fmt: skip


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
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for name, content in YAML.items():
        (tmp_path / f"{name}.yaml").write_bytes(
            content.encode("utf-16-le" if name == "utf16" else "utf-8")
        )
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "text.txt").write_bytes("café au lait\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    for variable in ("DTLIB_DATA", "DTLIB_CACHE"):
        monkeypatch.setenv(variable, "/nowhere")
    for module, name in ((launcher, "launch"), (processes, "start")):
        monkeypatch.setattr(module, name, None)  # calling it would be a TypeError
    return tmp_path


def test_the_list_has_lines_of_every_command():
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
    ("train text --out=", "--out is empty; give a value, or leave it out."),
    ("train text --steps 5 --warmup-steps 6", "warmup_steps is 6, but the run has 5 steps, so the"),
    ("train text --epochs 1 --warmup-steps 100000", "100000, but the run has 976 steps"),
    ("train text --config broken.yaml", "broken.yaml cannot be read: line 4: expected ',' or ']'"),
    ("train text --config colon.yaml", "line 3: could not find expected ':', in what begins in"),
    ("train text --config utf16.yaml", "utf16.yaml cannot be read: it is not text in UTF-8"),
    ("train text --config empty.yaml", "empty.yaml is empty, but it must hold lines of"),
    ("train text --config list.yaml", "list.yaml is a list, but it must hold lines of"),
    ("train text --config number.yaml", "number.yaml holds only '3', but it must hold lines of"),
    ("train images --data wikitext2", "belongs to the task text; for images, choose from pictures"),
    ("train text --model resnet18", "belongs to the task images; for text, choose from nano, gpt2"),
    ("train text --precision fp8", "fp8' is not offered; choose from fp32, tf32, bf16, fp16, fp64"),
    ("train text --verbose", "unknown setting '--verbose'. `dtlib train --help` lists all"),
    ("train text --device tpu", "choose from auto, cpu, cuda, mps.\n"),
    ("train text --strategy zero1 --deepspeed x.yaml", "cannot be read: it is not JSON in line 1."),
    ("train text --learning-rate 1", "Did you mean '--lr'?"),
    ("train text --num-steps 1", "Did you mean '--steps'?"),
    ("fetch cifar10 --from nowhere.tgz", "check the path, or download https://www.cs.toronto.edu"),
    ("fetch cifar10 --from full", "full has no cifar-10-binary.tar.gz: download https://www.cs"),
    ("fetch cifar10 --from notes.txt", "run `dtlib fetch cifar10 --from FILE`.\n"),
    ("fetch gpt2 --from notes.txt", "notes.txt is not vocab.json: download what `dtlib fetch gpt2"),
    ("study figure other.csv", "it has no column study; name a study's folder, or the CSV file"),
    ("study figure empty.yaml", "it has no column study"),
    ("study strong text --repeats x", "--repeats is 'x'; it must be a whole number."),
    ("sim memory --ranks 1e9", "ranks is 1000000000; it must be at most 1000000."),
    ("sim memory --json=3", "--json takes no value, so leave '3' out."),
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
