"""Contestants on several ranks that stay alive and take turns of a few steps.

A machine that gets busy for ten seconds would spoil a run of one contestant and spare the next. So
every contestant keeps processes of its own, one a rank, that wait while others have their turn; a
turn is a second or so, and contestants are compared turn by turn.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence

from table import HERE, Stopwatch, end

ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class Contestant:
    """The processes of one contestant, one a rank, started like torchrun's.

    `script` lies beside this file, calls `serve` or keeps a `Pace`, and reads `request` from its
    first argument; a turn, or the start, may take `timeout` seconds. Without `ranks` it is one
    process that nobody launched: some frameworks take one launched rank for data parallelism.
    """

    def __init__(self, script: str, request: dict, ranks: int | None, timeout: float) -> None:
        self.name, self.timeout = request["name"], timeout
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the processes)
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / script), json.dumps(request)],
                env=os.environ | ONE_THREAD | (self._world(rank, ranks, port) if ranks else {}),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                text=True, start_new_session=True,
            )
            for rank in range(ranks or 1)
        ]  # fmt: skip

    def turn(self, steps: int) -> dict:
        """Let it take so many steps: seconds of the slowest rank, of CPU, and every rank's losses.

        Raises
        ------
        RuntimeError
            When a rank died or took too long; the end of what it said is quoted.
        """
        for process in self.processes:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        answers = self.answers()
        return {
            "wall_s": max(answer["wall_s"] for answer in answers),
            "cpu_s": sum(answer["cpu_s"] for answer in answers),
            "losses": [answer["losses"] for answer in answers],
            **answers[0]["more"],
        }

    def answers(self) -> list[dict]:
        """One line of each rank; a contestant that is late is ended, and then says nothing."""
        late = threading.Timer(self.timeout, self.close)
        late.start()
        lines = [process.stdout.readline() for process in self.processes]
        late.cancel()
        if not all(lines):
            self.log.seek(0)
            said = self.log.read()[-3000:]
            raise RuntimeError(f"{self.name}: a rank gave no answer in {self.timeout:g} s:\n{said}")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                end(process)

    def _world(self, rank: int, ranks: int, port: int) -> dict[str, str]:
        return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
                "DS_ACCELERATOR": "cpu"}  # fmt: skip


def take_turns(
    names: Sequence[str], start: Callable[[str], Contestant], rounds: int, warmup: int, steps: int
) -> dict[str, list[dict]]:
    """Start all contestants, warm each up, and give each `rounds` turns, one after the other."""
    contestants: list[Contestant] = []
    try:
        for name in names:
            print(f"starting {name}", file=sys.stderr, flush=True)
            contestants.append(start(name))
            contestants[-1].answers()
            contestants[-1].turn(warmup)
        results: dict[str, list[dict]] = {name: [] for name in names}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for contestant in contestants:
                results[contestant.name].append(contestant.turn(steps))
        return results
    finally:
        for contestant in contestants:
            contestant.close()


def serve(steps: Callable[[int], list[float]], more: Callable[[], dict] = dict) -> None:
    """Answer every number on stdin by that many steps; other output must go elsewhere.

    Call `keep_stdout_clean` before anything prints.
    """
    answer({"ready": True})
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        losses = steps(int(line))
        took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        answer({**took, "losses": losses, "more": more()})


class Pace:
    """Holds a training that has a loop of its own after a step, until its next turn comes.

    Call `begin` before the training, `after_step` after every step, and `finish` with what the
    whole training gave: only then is the last turn answered.
    """

    def __init__(self, total: int) -> None:
        self.taken, self.total = 0, total

    def begin(self) -> None:
        self.until = self.taken + int(sys.stdin.readline())
        self.watch = Stopwatch()
        self.watch.read()

    def after_step(self) -> None:
        self.taken += 1
        if self.taken == self.until:
            self.watch.read()
            if self.taken < self.total:
                self.finish([], {})
                self.begin()

    def finish(self, losses: list[float], more: dict) -> None:
        answer({**self.watch.seconds(), "losses": losses, "more": more})


_answers: list = []


def keep_stdout_clean() -> None:
    """Send to stderr what frameworks print, at any level; answers still go to stdout."""
    _answers.append(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)


def answer(line: dict) -> None:
    print(json.dumps(line), file=_answers[0], flush=True)
