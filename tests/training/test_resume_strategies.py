"""kill -9 of one rank at a random step, under each strategy: nothing stays, and resume is right.

`test_resume` does the same from a command line; these runs start warm, inside this process.
"""

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import dtlib
from dtlib.ranks.launcher import RankFailed
from dtlib.training.record import Run, read_lines
from tests.saved_checkpoints import assert_same_bits
from tests.strategy_runs import HERE, SMALL, TABLE, figures, plain, ranks_of, settings_of, state

pytestmark = pytest.mark.usefixtures("own_folder")
RANKS, STEPS = 2, 24
EVERY = bool(os.environ.get("DTLIB_EVERY"))
NAMES = [name for name in plain(HERE) if not TABLE[name].apart]
PATIENCE = 60.0  # seconds that something may take here before the test fails


def settings(name: str, story: str) -> dict[str, Any]:
    return {**SMALL, **settings_of(name), "ranks": ranks_of(name, RANKS), "data": story,
            "steps": STEPS, "checkpoint_every": 3, "deterministic": True}  # fmt: skip


class Killer(threading.Thread):
    """Kills a rank of the run in `folder` at a random moment after that many recorded steps."""

    def __init__(self, folder: Path, rank: int, after: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.rank, self.after = folder, rank, after
        self.began = time.time()
        self.killed: int | None = None

    def run(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            pid = self.process_id()
            if pid and len(read_lines(self.folder / "metrics.jsonl")) >= self.after:
                time.sleep(random.uniform(0, 0.1))
                os.kill(pid, signal.SIGKILL)
                self.killed = pid
                return
            time.sleep(0.005)

    def process_id(self) -> int | None:
        """The process of the rank, which its log names; not that of an earlier start."""
        log = self.folder / f"rank{self.rank}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        named = [line for line in lines if " pid " in line]
        pid = int(named[-1].split(" pid ")[1].split()[0]) if named else None
        if pid and psutil.pid_exists(pid) and psutil.Process(pid).create_time() >= self.began - 1:
            return pid
        return None


def children() -> set[int]:
    """Processes below this one that are no zombies: the fork server, and ranks while they run."""
    own = psutil.Process().children(recursive=True)
    return {child.pid for child in own if child.status() != psutil.STATUS_ZOMBIE}


def kill_and_see(folder: Path, settings: dict[str, Any], rank: int, after: int) -> None:
    killer = Killer(folder, rank, after)
    killer.start()
    with pytest.raises(RankFailed, match=f"Rank {rank} was killed by SIGKILL"):
        dtlib.train("text", out=str(folder), resume=folder.exists(), **settings)
    killer.join(PATIENCE)
    assert killer.killed is not None


@pytest.mark.spread
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_killed_ends_as_one_that_was_not(name, story, tmp_path):
    told, row = settings(name, story), TABLE[name]
    whole: Run = dtlib.train("text", out="whole", **told)
    before = children()
    kills = 5 if EVERY else row.kills
    folder, gap = tmp_path / "killed", (STEPS - 10) // kills
    for number in range(kills):
        after = 1 + number * gap + random.randrange(gap)
        kill_and_see(folder, told, random.randrange(told["ranks"]), after)
        end = time.monotonic() + PATIENCE
        while children() - before:
            assert time.monotonic() < end, "a process of a killed run is still there"
            time.sleep(0.02)
    run = dtlib.train("text", out=str(folder), resume=True, **told)
    assert [line["step"] for line in run.history] == list(range(1, STEPS + 1))
    losses = pytest.approx(figures(whole)["losses"], rel=0, abs=row.resumes)
    assert figures(run)["losses"] == losses
    if not row.resumes:
        assert_same_bits(state(run), state(whole))
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "killed"}
    assert not list(folder.glob("checkpoints/.tmp*"))
