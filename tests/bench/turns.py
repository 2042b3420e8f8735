"""Contestants on several ranks that stay alive and take turns of a few steps.

A machine that gets busy for ten seconds would spoil a run of one contestant and spare the next. So
every contestant keeps processes of its own, one a rank, that wait while others have their turn; a
turn is a second or so, and contestants are compared turn by turn.

The processes are forked from a server that has only imported torch and this library's models, so
each begins with the same modules and no thread; whatever else its framework needs it imports alone.
"""

import importlib
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from table import Stopwatch

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")  # before anyone has torch
START = multiprocessing.get_context("forkserver")
START.set_forkserver_preload(
    ["torch.distributed", "dtlib.data", "dtlib.models.gpt", "dtlib.scratch.zero", "dtlib.ranks"]
)


class Contestant:
    """The processes of one contestant, one a rank, with torchrun's variables.

    `module` lies beside this file, and its `main(request)` calls `serve` or keeps a `Pace`; a turn,
    or the start, may take `timeout` seconds. Without `ranks` it is one process that nobody
    launched: some frameworks take one launched rank for data parallelism.
    """

    def __init__(self, module: str, request: dict, ranks: int | None, timeout: float) -> None:
        self.name, self.timeout = request["name"], timeout
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = tempfile.NamedTemporaryFile("r+")  # noqa: SIM115 (open as long as the processes)
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(ranks or 1):
            ours, theirs = START.Pipe()
            world = _world(rank, ranks, port) if ranks else {}
            process = START.Process(
                target=_compete, args=(module, request, world, self.log.name, theirs)
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def turn(self, steps: int) -> dict:
        """Let it take so many steps: seconds of the slowest rank, of CPU, and every rank's losses.

        Raises
        ------
        RuntimeError
            When a rank died or took too long; the end of what it said is quoted.
        """
        for pipe in self.pipes:
            pipe.send(steps)
        answers = self.answers()
        return {
            "wall_s": max(answer["wall_s"] for answer in answers),
            "cpu_s": sum(answer["cpu_s"] for answer in answers),
            "losses": [answer["losses"] for answer in answers],
            **answers[0]["more"],
        }

    def answers(self) -> list[dict]:
        """One answer of each rank, while the contestant's time lasts."""
        until = time.monotonic() + self.timeout
        try:
            return [self._answer(pipe, until) for pipe in self.pipes]
        except EOFError:
            said = self.log.read()[-3000:]
            raise RuntimeError(
                f"{self.name}: a rank ended, or gave no answer in {self.timeout:g} s:\n{said}"
            ) from None

    def _answer(self, pipe: Connection, until: float) -> dict:
        if not pipe.poll(max(0.0, until - time.monotonic())):
            raise EOFError
        return pipe.recv()

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(10)
            process.kill()


def _compete(module: str, request: dict, world: dict, log: str, pipe: Connection) -> None:
    """The life of one rank: what it prints goes to the log, its answers through the pipe."""
    global _parent
    _parent = pipe
    with open(log, "a") as told:  # noqa: PTH123 (a file of this name is open in the parent)
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
    os.environ.update(world)
    importlib.import_module(module).main(request)


def _world(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
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
    """Answer every number of steps that the bench asks for, until it ends this process."""
    answer({"ready": True})
    while True:
        count = _parent.recv()
        wall, cpu = time.perf_counter(), time.process_time()
        losses = steps(count)
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
        self.until = self.taken + _parent.recv()
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


_parent: Connection  # the bench's end of it asks, and is answered


def answer(line: dict) -> None:
    _parent.send(line)
