"""A rank that loaded DeepSpeed skips Python's shutdown, and nothing that an exit owes."""

import sys

import pytest
from scripts import run_script

from dtlib import cli

ENDS = """
import atexit, os, sys, threading, time, types
from dtlib.ranks import ending

class Aborts:  # as a thread of gloo does that wants the interpreter while Python shuts down
    def __del__(self):
        os.abort()

def work():
    time.sleep(0.2)
    print("thread done")

kept = Aborts()
atexit.register(print, "left the group")
ending.in_world = lambda: True
sys.modules["deepspeed"] = types.ModuleType("deepspeed")
threading.Thread(target=work).start()
print("result")
raise SystemExit(ending.end_rank(75))
"""


def test_the_shutdown_that_could_abort_a_rank_is_skipped(tmp_path):
    done = run_script(tmp_path, ENDS)
    assert done.returncode == 75, done.stderr
    assert done.stdout.split("\n") == ["result", "thread done", "left the group", ""]


@pytest.mark.parametrize("line", ["ending.in_world = lambda: True", 'sys.modules["deepspeed"] ='])
def test_every_other_process_ends_as_python_does(tmp_path, line):
    """Only then is `kept` still freed by the shutdown."""
    ordinary = "\n".join(row for row in ENDS.split("\n") if not row.startswith(line))
    done = run_script(tmp_path, ordinary)
    assert done.returncode == -6


def test_the_command_line_ends_its_ranks_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dtlib", "--version"])
    monkeypatch.setattr(cli, "end_rank", lambda code: code + 40)
    assert cli.main() == 40
    assert cli.main(["--version"]) == 0
    capsys.readouterr()
