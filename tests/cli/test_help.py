"""Help by the word, and errors that name the file they are in."""

from __future__ import annotations

import re

import pytest

from dtlib import cli


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


def test_settings_stand_in_groups_and_a_placeholder_says_what_it_is(capsys):
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    said = capsys.readouterr().out
    groups = {part.partition(":\n")[0]: part for part in said.split("\n\n")}
    for flag, group in {
        "--lr RATE": "optimizer",
        "--micro-batch N": "batch and steps",
        "--timeout SECONDS": "strategy and ranks",
        "--bucket-cap-mb MIB": "strategy and ranks",
        "--precision {fp32,tf32,bf16,fp16,fp64}": "device and precision",
        "--out FOLDER": "records and checkpoints",
    }.items():
        assert f"  {flag}" in groups[group]
    for flag in re.findall(r"^  --([\w-]+) \S", groups["options"], flags=re.MULTILINE):
        assert flag in ("config", "json")  # every other setting has a group
