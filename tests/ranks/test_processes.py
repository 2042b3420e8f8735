"""Programs that are started: none is left behind, and what they say is read."""

import os

from processes import gone

from dtlib.ranks.processes import Ran, run


def test_command_that_hangs_leaves_nothing(tmp_path):
    script = f"sleep 60 & echo $! > {tmp_path / 'child'}; wait"
    ran = run(["/bin/sh", "-c", script], 1.0, os.environ)
    assert ran == Ran(None, "no answer within 1 s")
    assert gone([int((tmp_path / "child").read_text())], seconds=10)


def test_command_that_is_not_there_is_no_error():
    assert run(["/no/such/program"], 1.0, os.environ).code is None


def test_an_answer_that_is_no_json_is_none():
    assert Ran(0, "hello\n").answer() is None
    assert Ran(0, "").answer() is None
    assert Ran(0, "[1]\n").answer() is None
    assert Ran(1, "{}\n").answer() is None
