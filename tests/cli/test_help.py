"""Help by the word, and errors that name the file they are in."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtlib import cli
from dtlib.cluster.doctor import Finding, report
from dtlib.config.flags import GROUPS


def test_help_and_a_command_is_that_commands_help(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["help", "train"])
    assert left.value.code == 0
    assert "--global-batch" in capsys.readouterr().out
    assert cli.main(["help", "trian"]) == 2
    assert "Did you mean 'train'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "flags", "named"),
    [
        ("steps: many", [], True),
        ("stepps: 3", ["--lr", "1"], True),
        ("norm: group", [], True),
        ("steps: 3", ["--lr", "fast"], False),  # the flag's fault
    ],
)
def test_an_error_in_a_config_file_names_the_file(
    text, flags, named, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    assert cli.main(["train", "text", "--config", "run.yaml", *flags]) == 2
    said = capsys.readouterr().err
    assert ("in the configuration run.yaml, " in said) is named


def help_of(capsys, *words: str) -> str:
    with pytest.raises(SystemExit):
        cli.main([*words, "--help"])
    return capsys.readouterr().out


def test_settings_come_in_groups_and_say_what_they_take(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = help_of(capsys, "train")
    titles = re.findall(r"^(\S.*):$", said, re.MULTILINE)
    assert [title for title in titles if title in GROUPS.values()] == list(GROUPS.values())
    of_strategies = said.partition("what some strategies heed:")[2].partition("\n\n")[0]
    assert set(re.findall(r"--[a-z-]+ [A-Z|]+|--cpu-offload,", of_strategies)) >= {
        "--bucket-cap-mb MIB", "--nvme FOLDER", "--shard-ranks RANKS", "--cpu-offload,",
    }  # fmt: skip


@pytest.mark.parametrize("words", [
    ["train"], ["sim", "memory"], ["study", "strong"], ["study", "sensitivity"],
    ["batch", "submit"],
])  # fmt: skip
def test_no_placeholder_says_nothing(words, capsys):
    assert re.findall(r"--[a-z-]+ (?:[A-Za-z]|VALUE)(?![\w,])", help_of(capsys, *words)) == []


@pytest.mark.parametrize(("words", "has"), [
    (["fetch"], {"name", "what", "bytes", "folder"}),
    (["ops", "list"], {"name", "built"}),
    (["lessons", "list"], {"number", "title", "minutes", "needs"}),
    (["batch", "status"], None),
    (["study", "strong", "text", "--ranks", "1,2", "--parts"], str),
])  # fmt: skip
def test_every_list_is_there_as_json(words, has, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    if has is None:
        assert found == []  # no jobs here
    else:
        assert found and all(
            isinstance(one, str) if has is str else one.keys() == has for one in found
        )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    findings = [Finding("torch", "ok", "here"), Finding("GPU", "missing", "none")]

    def said(file: io.StringIO) -> str:
        report(findings, file=file)
        return file.getvalue()

    plain, coloured = said(io.StringIO()), said(Terminal())
    assert "\033[32mok      \033[0m torch" in coloured and "\033[31mmissing " in coloured
    assert "\033" not in plain and re.sub(r"\033\[\d+m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert said(Terminal()) == plain


@pytest.mark.parametrize(("line", "offered"), [
    ("dtlib tr", ["train"]),
    ("dtlib batch s", ["status", "submit"]),
    ("dtlib train text --bucket", ["--bucket-cap-mb"]),
    ("dtlib train --optimizer ", ["adamw", "sgd"]),
    ("dtlib study strong --strategy zero", ["zero1", "zero2", "zero3"]),
])  # fmt: skip
def test_a_shell_completes_commands_settings_and_words(line, offered, tmp_path):
    """As bash calls it: the line in a variable, the answers on a channel of their own."""
    answers = tmp_path / "answers"
    env = os.environ | {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)),
                        "_ARGCOMPLETE_IFS": "\n",
                        "_ARGCOMPLETE_STDOUT_FILENAME": str(answers)}  # fmt: skip
    code = "import sys; sys.argv = ['dtlib']; from dtlib.cli import main; main()"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], env=env, cwd=root, check=False, timeout=60)
    assert sorted(word.strip() for word in answers.read_text().split("\n")) == offered
