"""What goes wrong: the message names the rank and what it or the others were doing, and no
process is left. Time-outs are a few seconds; what is waited for here is longer by far than the
5 s that the launcher has to end everything.
"""

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
import rank_functions as on_ranks
from processes import gone, living, wait_until_they_wait
from rank_failures import WAITING, failure

from dtlib.errors import BadInput
from dtlib.ranks import parcel
from dtlib.ranks.launcher import Outcome, RankFailed, blame, launch, run_ranks, start_method
from dtlib.ranks.where import Where

HERE = Path(__file__).parents[1]
pytestmark = [pytest.mark.spread, pytest.mark.usefixtures("nothing_is_left")]


@pytest.mark.parametrize(("how", "reason", "sentence"), [
    ("raise", "error", r"Rank 1 raised ValueError: the seventh batch is empty \(.*:\d+\); "),
    ("kill", "killed", r"Rank 1 was killed by SIGKILL; "),
    ("os_exit", "exit", r"Rank 1 left with exit code 3; "),
    ("sys_exit", "exit", r"Rank 1 left with exit code 4 \(.*:\d+\); "),
])  # fmt: skip
def test_one_rank_fails(how: str, reason: str, sentence: str) -> None:
    error = failure(how, timeout=30)
    assert re.fullmatch(sentence + WAITING + r"\.", error.sentence), error.sentence
    assert (error.rank, error.reason, error.exit_code) == (1, reason, 1)
    assert set(error.others) == {0, 2}


def test_the_traceback_shows_the_users_frames_only() -> None:
    error = failure("raise", timeout=30)
    assert error.error == "ValueError"
    assert error.message == "the seventh batch is empty"
    assert 'raise ValueError("the seventh batch is empty")' in error.traceback
    assert "_ranks" not in error.traceback.replace("rank_functions", "")
    assert str(error) == f"{error.sentence}\n\n{error.traceback}".strip()


def test_a_rank_that_never_comes() -> None:
    error = failure("sleep", timeout=2)
    late = r"Rank 1 did not join all_reduce of 4 float32 within 2 s: "
    pattern = rf"{late}{WAITING}; rank 1 was running `time.sleep\(600\)` \(.*:\d+\)\."
    assert re.fullmatch(pattern, error.sentence), error.sentence
    assert (error.rank, error.reason) == (1, "timeout")


@pytest.mark.any_start
def test_a_rank_whose_every_thread_is_stuck() -> None:
    error = failure("hold_the_gil", timeout=2)
    assert error.rank == 1
    assert "did not answer" in error.sentence


def test_ranks_that_only_lost_a_peer_are_not_blamed() -> None:
    with pytest.raises(RankFailed) as caught:
        launch(on_ranks.raise_late_everywhere, ranks=3, timeout=30, show=False)
    assert caught.value.rank == 2
    assert caught.value.sentence.startswith("Rank 2 was killed by SIGKILL; ranks 0 and 1 were")


def test_a_lost_peer_that_is_reported_first_is_still_not_blamed() -> None:
    lost = Outcome(0, "error", error="RuntimeError", message="Connection closed by peer", at=1.0)
    error = blame([lost, Outcome(1, "killed", code=-9, at=2.0)], timeout=5)
    assert error is not None and error.rank == 1


def test_no_rank_is_blamed_for_a_group_that_another_may_have_left_out() -> None:
    waits = Where(call="new_group", line=9, cell=True)
    outcomes = [Outcome(k, "timeout", where=waits) for k in (0, 1)]
    error = blame([*outcomes, Outcome(2, "ok"), Outcome(3, "ok")], timeout=30)
    assert error is not None and error.sentence == (
        "Ranks 0 and 1 were waiting in new_group (cell line 9) after 30 s; ranks 2 and 3 had "
        "already returned. They did not all make the same groups in the same order."
    )


def test_code_that_travels_by_value_keeps_its_file_name() -> None:
    space = {"__name__": "__main__"}
    exec(compile("def f(): pass", "/tmp/ipykernel_1/2.py", "exec"), space)
    back = pickle.loads(parcel.dumps(space["f"]))
    assert back.__code__.co_filename == "/tmp/ipykernel_1/2.py"


@pytest.mark.any_start
def test_the_others_have_the_timeout_after_the_first_return() -> None:
    outcomes = run_ranks(on_ranks.return_at_once_but_one, ranks=3, timeout=1)
    assert [o.status for o in outcomes] == ["ok", "timeout", "ok"]
    assert outcomes[0].value == "done"
    assert str(outcomes[1].where).startswith("running `time.sleep(600)`")


@pytest.mark.any_start
def test_a_limit_ends_what_never_would() -> None:
    outcomes = run_ranks(on_ranks.fail_on_rank_1, ("loop", 0), ranks=1, timeout=60, limit=1)
    assert outcomes[0].status == "timeout"
    with pytest.raises(RankFailed, match=r"Rank 0 did not end within 1 s; rank 0 was running"):
        launch(on_ranks.fail_on_rank_1, "loop", 0, ranks=1, limit=1, show=False)


def test_the_sentence_names_the_seconds_that_ran_out() -> None:
    with pytest.raises(RankFailed, match=r"Rank 0 did not end within 2 s; rank 0 was running"):
        launch(on_ranks.fail_on_rank_1, "loop", 0, ranks=1, timeout=1, limit=2, show=False)


def test_what_a_rank_started_ends_with_it() -> None:
    children = launch(on_ranks.leave_a_child, ranks=2, show=False)
    assert gone(children)


@pytest.mark.parametrize("how", ["kill", "raise", "return"])
def test_loader_workers_end_with_their_rank(how: str) -> None:
    outcomes = run_ranks(on_ranks.with_loader_workers, (how,), ranks=2, timeout=20)
    pids = [int(pid) for outcome in outcomes for pid in outcome.output.split() if pid.isdigit()]
    assert len(pids) == 4
    assert gone(pids)


def test_output_of_a_dead_rank_is_kept() -> None:
    def talk() -> None:
        print("last words")
        on_ranks.fail_on_rank_1("os_exit", 0)

    with pytest.raises(RankFailed) as caught:
        launch(talk, ranks=1, show=False)
    assert caught.value.output[0] == "last words\n"


def test_an_endless_print_is_ended_and_cut() -> None:
    outcome = run_ranks(on_ranks.flood, ("\n",), ranks=1, limit=2)[0]
    assert outcome.status == "timeout"
    assert outcome.output.endswith("(more than 20000 lines: the rest is not kept)\n")


@pytest.mark.any_start
def test_an_endless_line_is_cut_into_lines() -> None:
    outcome = run_ranks(on_ranks.flood, (" ",), ranks=1, limit=1)[0]
    assert max(map(len, outcome.output.splitlines())) < 100_000  # a read more than the longest


SCRIPT = """
import os, subprocess, sys, time
import rank_functions
from dtlib.ranks import group, launcher
group.STOP_GRACE = {grace}
def f():
    import torch.distributed as dist, torch
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("pid", os.getpid(), flush=True)
    if {what!r} == "stop":
        return rank_functions.until_stopped()
    if dist.get_rank() == 1:
        time.sleep(600)
    dist.all_reduce(torch.ones(2))
print("result", launcher.launch(f, ranks=2, timeout=300))
"""


class Script:
    """A script that launches two ranks, and the ids of its ranks and of all that they started."""

    def __init__(self, folder: Path, what: str, grace: float = 600) -> None:
        path = folder / "script.py"
        path.write_text(textwrap.dedent(SCRIPT.format(what=what, grace=grace)))
        self.popen = subprocess.Popen(
            [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(HERE)}, cwd=folder,
        )  # fmt: skip
        assert self.popen.stdout is not None
        self.pids: list[int] = []
        while len(self.pids) < 2:  # a rank that is early says first that it is stepping
            line = self.popen.stdout.readline()
            assert line, self.popen.communicate(timeout=60)
            self.pids += map(int, re.findall(r"pid (\d+)$", line))
        self.pids += [p.pid for p in psutil.Process(self.popen.pid).children(recursive=True)]
        if what == "wait":
            wait_until_they_wait(self.pids[:2])  # one in its collective, the other in its sleep
        else:
            time.sleep(0.5)  # they step by then; no harm if not

    def finish(self) -> tuple[str, str]:
        return self.popen.communicate(timeout=60)


def test_an_interrupt_says_where_each_rank_was(tmp_path: Path) -> None:
    script = Script(tmp_path, "wait")
    script.popen.send_signal(signal.SIGINT)
    _, errors = script.finish()
    assert re.search(
        r"Interrupted: rank 0 was waiting in all_reduce of 2 float32 \(script.py:\d+\); "
        r"rank 1 was running `time.sleep\(600\)` \(script.py:\d+\)\.", errors
    ), errors  # fmt: skip
    assert "KeyboardInterrupt" in errors
    assert gone(script.pids)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP])
def test_nothing_is_left_of_a_parent_that_dies(tmp_path: Path, how: signal.Signals) -> None:
    """Field bug 2.08."""
    script = Script(tmp_path, "wait")
    script.popen.send_signal(how)
    script.finish()
    assert gone(script.pids)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_parent_stops_all_ranks_at_one_step(
    tmp_path: Path, how: signal.Signals
) -> None:
    """Field bug 6.03."""
    script = Script(tmp_path, "stop")
    script.popen.send_signal(how)
    out, errors = script.finish()
    found = re.search(r"result \[(\d+), (\d+)\]", out)
    assert found and found[1] == found[2], out + errors
    assert gone(script.pids)


def test_a_signal_to_every_process_of_a_job_stops_all_ranks_at_one_step(tmp_path: Path) -> None:
    """As Slurm, systemd and docker send it."""
    script = Script(tmp_path, "stop")
    for pid in living([script.popen.pid, *script.pids]):
        os.kill(pid, signal.SIGTERM)
    out, errors = script.finish()
    found = re.search(r"result \[(\d+), (\d+)\]", out)
    assert found and found[1] == found[2], out + errors
    assert gone(script.pids)


@pytest.mark.any_start
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    script = Script(tmp_path, "wait")
    script.popen.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    script.popen.send_signal(signal.SIGTERM)
    _, errors = script.finish()
    assert script.popen.returncode != 0
    assert "Interrupted: rank 0 was waiting" in errors
    assert gone(script.pids)


def test_a_signal_ends_ranks_that_never_ask_whether_to_stop(tmp_path: Path) -> None:
    """As `timeout`, Slurm or a container send it, once: a script may not live on."""
    script = Script(tmp_path, "wait", grace=1)
    script.popen.send_signal(signal.SIGTERM)
    _, errors = script.finish()
    assert "Interrupted: rank 0 was waiting" in errors
    assert gone(script.pids)


def test_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
    launch(on_ranks.pid, ranks=1)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)) == before


def test_the_start_method_is_the_systems_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = os.environ.get("DTLIB_START")
    assert said is None or start_method() == said
    monkeypatch.delenv("DTLIB_START", raising=False)
    for system, method in (("linux", "forkserver"), ("darwin", "spawn")):
        monkeypatch.setattr(sys, "platform", system)
        assert start_method() == method
    monkeypatch.setenv("DTLIB_START", "fork")
    with pytest.raises(BadInput, match="'fork' is neither forkserver nor spawn"):
        start_method()
