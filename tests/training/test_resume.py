"""Kill a rank at any moment: nothing is left running, and --resume ends in the same bits."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
import torch
from saved_checkpoints import assert_same_bits, final_weights

from dtlib.config import RunConfig
from dtlib.ranks import dist
from dtlib.training import tasks
from dtlib.training.record import read_lines

MARK = "DTLIB_TEST_RUN"
STEPS, EVERY = 60, 3
# The second kill hits a start that goes on; twenty before a release.
KILLS = 20 if os.environ.get("DTLIB_EVERY") else 2
COMMAND = [sys.executable, "-m", "dtlib", "train", "text"]
COMMAND += ["--model", "nano", "--steps", str(STEPS), "--global-batch", "6", "--max-length", "8"]
COMMAND += ["--num-samples", "128", "--deterministic", "--checkpoint-every", str(EVERY)]
PATIENCE = 120.0  # seconds that something may take here before the test fails


class Training:
    """One `dtlib train` in a session of its own; every process that it starts bears its mark."""

    def __init__(self, folder: Path, ranks: int, *words: str) -> None:
        self.folder, self.mark = folder, uuid.uuid4().hex
        self.log = folder.with_suffix(".err")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "--ranks", str(ranks), "--out", str(folder), *words],
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: self.mark},
                start_new_session=True,
            )

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.alive():
            process.kill()
        self.process.wait()

    def alive(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self.owns(process)]

    def owns(self, process: psutil.Process) -> bool:
        try:
            marked = process.environ().get(MARK) == self.mark
            return marked and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def steps(self) -> int:
        """Steps that stand in the records."""
        return len(read_lines(self.folder / "metrics.jsonl"))

    def find(self, rank: int) -> psutil.Process | None:
        """The process of a rank, by its log; None while only an earlier start has written one."""
        log = self.folder / f"rank{rank}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        for line in reversed(lines):
            if " pid " in line:
                pid = int(line.split(" pid ")[1].split()[0])
                process = psutil.Process(pid) if psutil.pid_exists(pid) else None
                return process if process and self.owns(process) else None
        return None

    def wait_until(self, condition) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"waited in vain:\n{self.log.read_text()}"
            time.sleep(0.02)

    def kill_rank(self, rank: int, after: int) -> None:
        """Kill -9 one rank at a random moment after that many steps, and see the rest go."""
        self.wait_until(lambda: self.find(0) and self.find(rank) and self.steps() >= after)
        time.sleep(random.uniform(0, 0.2))
        victim = self.find(rank)
        assert victim is not None, f"it ended too early:\n{self.log.read_text()}"
        victim.kill()
        assert self.process.wait(PATIENCE) == 1
        self.wait_until(lambda: not self.alive())
        assert f"Rank {rank} was killed by SIGKILL" in self.log.read_text()


def finish(folder: Path, ranks: int, *words: str) -> dict[str, torch.Tensor]:
    with Training(folder, ranks, *words) as training:
        assert training.process.wait(PATIENCE) == 0, training.log.read_text()
        assert not training.alive()
    steps = [line["step"] for line in read_lines(folder / "metrics.jsonl")]
    assert steps == list(range(1, STEPS + 1)), "each step stands once in the records"
    return final_weights(folder, STEPS)


@pytest.fixture(scope="module")
def uninterrupted(request, tmp_path_factory) -> tuple[int, dict[str, torch.Tensor]]:
    folder = tmp_path_factory.mktemp("whole") / f"ranks{request.param}"
    return request.param, finish(folder, request.param)


def kill_again_and_again(folder: Path, ranks: int, kills: int) -> dict[str, torch.Tensor]:
    """Kill a random rank of each of the next `kills` starts, then let the run end."""
    gaps = (STEPS - 10) // kills
    for number in range(kills):
        resume = ["--resume"] if number else []
        # The records go on from the last checkpoint, so each kill comes after a few new steps.
        after = 1 + number * gaps + random.randrange(gaps)
        with Training(folder, ranks, *resume) as training:
            training.kill_rank(random.randrange(ranks), after)
    return finish(folder, ranks, "--resume")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("uninterrupted", [2], indirect=True)
def test_killed_run_resumes_to_the_same_bits(uninterrupted, tmp_path):
    ranks, expected = uninterrupted
    assert_same_bits(kill_again_and_again(tmp_path / "run", ranks, kills=1), expected)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("uninterrupted", [3], indirect=True)
def test_run_killed_again_and_again_ends_in_the_same_bits(uninterrupted, tmp_path):
    ranks, expected = uninterrupted
    assert_same_bits(kill_again_and_again(tmp_path / "run", ranks, kills=KILLS), expected)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("uninterrupted", [2], indirect=True)
def test_run_asked_to_stop_asks_to_be_started_again(uninterrupted, tmp_path):
    ranks, expected = uninterrupted
    with Training(tmp_path / "run", ranks) as training:
        training.wait_until(lambda: training.steps() >= 3)
        training.process.terminate()
        assert training.process.wait(PATIENCE) == 75, training.log.read_text()
        assert not training.alive()
        assert "--resume" in training.log.read_text()
    assert (tmp_path / "run" / "requeue").exists()
    assert_same_bits(finish(tmp_path / "run", ranks, "--resume"), expected)
    assert not (tmp_path / "run" / "requeue").exists()


# field bug 5.01
def test_order_after_a_resume_is_that_of_the_uninterrupted_run():
    config = RunConfig(
        "text", model="nano", global_batch=1, num_samples=8, max_length=8, ranks=1
    ).resolved("cpu")
    place = dist.World(0, 0, 1, 1, torch.device("cpu"), None)
    plan = config.plan(1)

    def order(first: int, count: int) -> list[int]:
        task = tasks.find("text")(config, place)  # all new, as in a new process
        torch.manual_seed(random.randrange(1000))  # a stream that has moved on changes nothing
        shares = itertools.islice(task.shares(plan, first), count)
        return [int(index) for share in shares for index in share.indices]

    whole = order(0, 16)
    assert sorted(whole[:8]) == sorted(whole[8:]) == list(range(8))  # two epochs
    assert whole[:8] != whole[8:]
    for stop in (3, 8, 11):
        assert order(0, stop) + order(stop, 16 - stop) == whole
