"""`dtlib clinic spy`: py-spy on processes that hang, which need not have asked for it."""

import os
import shutil
import subprocess
import sys

import pytest

from dtlib import cli
from dtlib.measure.clinic import evidence, verdict

HANGS = "import time\n\ndef wait():\n    print('here', flush=True)\n    time.sleep(600)\n\nwait()\n"
spied = pytest.mark.skipif(not shutil.which("py-spy"), reason="py-spy is not installed here")


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start processes with the variables of a rank; they hang, and are ended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(HANGS)
    started = []

    def hang(**variables):
        line = [sys.executable, "train.py"]
        env = {**os.environ, **variables}
        started.append(subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "here\n"
        return started[-1].pid

    yield hang
    for process in started:
        process.kill()
        process.communicate()


@spied
def test_stacks_of_ranks_that_hang_are_kept_and_read(start, tmp_path, capsys):
    pids = [str(start(RANK=rank, WORLD_SIZE="4")) for rank in ("3", "1")]
    assert cli.main(["clinic", "spy", *pids]) == 0
    assert capsys.readouterr().out == (
        "rank 1: dumps/stack_rank_1.txt\nrank 3: dumps/stack_rank_3.txt\n"
    )
    report = verdict.examine(evidence.gather([tmp_path / "dumps"]))
    assert {rank: report.ranks[rank] for rank in (1, 3)} == dict.fromkeys(
        (1, 3), "is running `time.sleep(600)` (train.py:5)"
    )
    assert "no stack of ranks 0 and 2" in report.missing


@spied
def test_what_is_no_rank_is_refused(start, capsys):
    pid = str(start(RANK="0"))
    for words, says in (
        ([str(os.getppid())], "0 of 1 processes are ranks"),
        ([pid, str(start(RANK="0"))], "are both rank 0, of two jobs; give the PIDs of one"),
        (["4000000000"], "there is no process 4000000000"),
        (["rank0"], "'rank0' is no PID"),
    ):
        assert cli.main(["clinic", "spy", *words]) == 2
        assert says in capsys.readouterr().err


def test_without_py_spy_it_says_how_to_get_it(start, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda *words, **more: None)
    assert cli.main(["clinic", "spy"]) == 69
    assert "needs py-spy, which is not installed here; run `pip install" in capsys.readouterr().err
