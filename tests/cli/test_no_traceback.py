"""Files and folders that cannot be used, and a Slurm that does not answer: a sentence each."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from dtlib import cli
from dtlib.errors import in_words
from dtlib.learn import history, places
from dtlib.training.checkpoint import export


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(capsys, code: int, *words: str) -> str:
    assert cli.main(words) == code
    text = capsys.readouterr().err
    assert text.startswith("dtlib: ") and text.count("\n") == 1
    return text


@pytest.mark.parametrize("folder", ["there.txt", "there.txt/in", "/proc/in"])
def test_weights_go_to_no_file_and_to_no_folder_that_cannot_be_written(
    folder, capsys, monkeypatch, tmp_path
):
    shared = {"strategy": {"model": {}}, "config": {"task": "images"}}
    loaded = SimpleNamespace(latest=lambda: SimpleNamespace(shared=shared))
    monkeypatch.setattr(export, "Checkpoints", lambda folder: loaded)
    (tmp_path / "there.txt").write_text("mine")
    assert f"{folder} cannot be written to (" in said(capsys, 2, "export", "run", folder)
    assert (tmp_path / "there.txt").read_text() == "mine"


def test_notebooks_are_collected_into_no_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "batch").mkdir()
    text = said(capsys, 2, "batch", "collect", "--to", "/proc/in")
    assert "/proc/in cannot be written to (" in text and text.endswith("choose another --to.\n")


def test_without_jobs_there_is_nothing_to_collect(capsys, tmp_path):
    assert "there are no jobs in" in said(capsys, 2, "batch", "collect")
    assert not list(tmp_path.iterdir())


def test_sbatch_without_a_controller_is_unavailable_here(capsys, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    text = "Batch job submission failed: Unable to contact slurm controller (connect failure)"
    sbatch.write_text(f"#!/bin/sh\necho 'sbatch: error: {text}' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert "`dtlib lessons run 00` runs it" in said(capsys, 69, "batch", "submit", "00")
    assert not list((tmp_path / "batch").iterdir())


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 1), (errno.EACCES, 2), (errno.EPERM, 2), (errno.EROFS, 2)]
)
def test_a_file_that_nobody_foresaw_is_named(number, code, capsys, monkeypatch):
    """What is not allowed is bad input; a disk that is full is not."""

    def fail(words):
        raise OSError(number, os.strerror(number), "runs/x")

    monkeypatch.setattr("dtlib.study.report.main", fail)
    why = os.strerror(number)
    sentence = f"runs/x cannot be used: {why[0].lower()}{why[1:]}.\n"
    assert sentence in said(capsys, code, "report", "x")


def test_progress_in_a_read_only_course_goes_to_a_folder_of_the_users_own(
    capsys, monkeypatch, tmp_path
):
    places._home.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir("/proc")  # which is read-only for root, too
    with history.change("00", "exercises", "one") as entry:
        entry["passed"] = True
    assert history.read("00", "exercises", "one") == {"passed": True}
    text = capsys.readouterr().err
    assert f"/proc is read-only: your progress is kept in {tmp_path}/state/dtlib/proc-" in text
    assert text.count("\n") == 1  # once, and not at every check


# Each command that reads a file, with a folder in its place, or nothing.
READERS = [
    ("train text --config {}", "; give the YAML file of settings."),
    ("train text --strategy zero1 --deepspeed {}", ""),
    ("study figure {}.csv", "; name "),
    ("profile read {}.ncu.csv", ""),
    ("batch launch {}.yaml", ""),
]


@pytest.mark.parametrize("there", [False, True], ids=["missing", "folder"])
@pytest.mark.parametrize(("line", "remedy"), READERS)
def test_why_a_file_cannot_be_read_is_said_in_words(line, remedy, there, capsys, tmp_path):
    words = line.format("x").split()
    name = words[-1]
    if there:
        (tmp_path / name).mkdir()
    text = said(capsys, 2, *words)
    assert name in text and "Errno" not in text and remedy in text


def test_the_words_of_errors():
    assert (
        in_words(FileNotFoundError(2, "No such file or directory", "x")) == "there is no such file"
    )
    assert in_words(OSError(28, "No space left on device", "x")) == "no space left on device"
    assert in_words(ValueError("a\n  b")) == "a b"
