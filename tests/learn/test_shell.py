"""`learn.shell`: a command's output, its failure, and nothing left behind."""

import os
import shlex
import sys
import time
from pathlib import Path

import pytest
from processes import living

from dtlib import learn
from dtlib.errors import BadInput


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_it_shows_the_command_and_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    learn.shell("python -c 'print(6 * 7)'")
    assert capsys.readouterr().out == "$ python -c 'print(6 * 7)'\n42\n"


def test_programs_of_this_python_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    learn.shell("python -c 'import sys; print(sys.prefix)'")
    assert capsys.readouterr().out.splitlines()[1] == sys.prefix


def test_a_failure_names_the_exit_code_and_the_last_words() -> None:
    with pytest.raises(learn.CommandFailed, match=r"exit code 3; its last output:\nno luck"):
        learn.shell(python("import sys; print('no luck'); sys.exit(3)"))


def test_there_is_no_such_program() -> None:
    with pytest.raises(BadInput, match="there is no program 'torchrum' on this machine"):
        learn.shell("torchrum train.py")


STARTS_ANOTHER = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(100)"]
child = subprocess.Popen(sleep, start_new_session=True)
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(100)
"""


def test_one_that_is_not_done_in_time_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    start = time.monotonic()
    with pytest.raises(learn.CommandFailed, match="did not finish within 3 s and was stopped"):
        learn.shell(f"{python(STARTS_ANOTHER)} {note}", timeout=3)
    assert time.monotonic() - start < 90  # of the 100 s that it would have slept
    assert not living([int(note.read_text())])


def test_the_users_own_settings_win(monkeypatch, capsys) -> None:
    show = python("import os; print(os.environ['OMP_NUM_THREADS'])")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    learn.shell(show)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    learn.shell(show)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1::2] == ["1", "3"]
    assert os.environ["OMP_NUM_THREADS"] == "3"
