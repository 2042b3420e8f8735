"""In the parent, inside a Slurm allocation of several nodes: ranks on all of them.

`srun` starts one agent per node (`node.py`), the agent becomes torchrun, and torchrun's ranks
connect back to this process over TCP. From then on they are like the ranks of this machine: one
launch (`group.py`) hands them the job and takes output, progress, results and errors. A rank ends
itself when its connection closes, so none outlives this process; the step ends with `srun`.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dtlib.errors import DtlibError
from dtlib.ranks.allocation import Spread, cpus_per_node
from dtlib.ranks.environment import refuse_loopback, start_limit
from dtlib.ranks.node import GREETING, SETTINGS
from dtlib.ranks.pool import Process
from dtlib.ranks.processes import start

_ROOT = str(Path(__file__).parents[2])
_AGENT = "import sys; sys.path.insert(0, {root!r}); import {module} as m; m.agent()"
ATTEMPTS = 3  # to find a port for torchrun's meeting place, which another program may take first
PATIENCE = 5.0  # seconds for a step to end by itself, once its ranks are released or killed
# torchrun's table of failures: the rank, and below it how it ended.
_ENDED = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)")


@contextlib.contextmanager
def processes(where: Spread) -> Iterator[list[Process]]:
    """Yield a waiting process for each rank, and end the step when the launch is over.

    Raises `BadInput` when the nodes cannot meet at the address that they are given, and
    `DtlibError`, with what srun or a node said, when the step did not start.
    """
    for attempt in range(ATTEMPTS):
        step = Step(where)
        try:
            ranks = step.ranks()
        except BaseException as error:
            step.end(at_once=True)
            if step.said("EADDRINUSE", "Address already in use") and attempt + 1 < ATTEMPTS:
                continue
            raise error
        try:
            yield ranks
        finally:
            step.end()
        return


class Remote(Process):
    """A rank on a node: its connection, its output, and how torchrun says it ended."""

    def __init__(self, step: Step, rank: int, host: str, sockets: dict[str, socket.socket]) -> None:
        self.step, self.rank, self.host = step, rank, host
        self.line = sockets["line"]
        self.connection = Connection(os.dup(self.line.fileno()))
        self.output = sockets["output"].detach()
        os.set_blocking(self.output, False)
        self.pid = 0

    def exit_code(self) -> int | None:
        return None if self.step.running() else self.step.exit_code(self.rank)

    def wait(self, seconds: float) -> int | None:
        """Return the exit code if it is known; `Step.end` waits for all ranks together."""
        return self.exit_code()

    def code_of_death(self) -> int | None:
        """Wait until torchrun has said how the rank ended."""
        end = time.monotonic() + PATIENCE
        while self.step.running() and time.monotonic() < end:
            if self.step.exit_code(self.rank) is not None:
                break
            time.sleep(0.05)
        return self.step.exit_code(self.rank)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.line.close()
        super().close()


class Step:
    """One Slurm step: srun, the agents that it starts, and the ranks that connect back."""

    def __init__(self, where: Spread) -> None:
        self.where = where
        self.address = os.environ.get("MASTER_ADDR") or where.hosts[0]
        refuse_loopback(self.address, where.hosts)
        self.token = secrets.token_hex(16)
        self.listener = socket.create_server(("", 0), backlog=256)
        self.listener.settimeout(0.1)
        self.lines: list[str] = []
        env = {**os.environ, SETTINGS: json.dumps(self._settings())}
        self.popen = start(self._command(), env=env)
        self._reader = threading.Thread(target=self._read, daemon=True, name="dtlib-srun")
        self._reader.start()

    def _command(self) -> list[str]:
        flags = ["--kill-on-bad-exit=1", "--job-name=dtlib-ranks"]
        cpus = cpus_per_node(os.environ)
        flags += [f"--cpus-per-task={cpus}"] if cpus else []
        return srun(self.where.hosts, "dtlib.ranks.node", *flags)

    def _settings(self) -> dict[str, object]:
        # A notebook on a login node listens there, not on the allocation's first node.
        on_node = os.environ.get("SLURMD_NODENAME") == self.where.hosts[0]
        return {
            "token": self.token,
            "address": self.address if on_node else socket.gethostname(),
            "port": self.listener.getsockname()[1],
            "master": self.address,
            "master_port": random_port(),
            "nodes": len(self.where.hosts),
            "counts": dict(zip(self.where.hosts, self.where.counts, strict=True)),
            "root": _ROOT,
        }

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line.rstrip())

    def running(self) -> bool:
        return self.popen.poll() is None

    def said(self, *texts: str) -> bool:
        """Return whether srun, an agent or torchrun printed one of these texts."""
        return any(text in line for line in list(self.lines) for text in texts)

    def exit_code(self, rank: int) -> int | None:
        """Return the exit code that torchrun reports for the rank, negative for a signal."""
        found = _ENDED.findall("\n".join(self.lines))
        return next((int(code) for number, code in found if int(number) == rank), None)

    def ranks(self) -> list[Process]:
        """Wait until every rank has connected."""
        total = self.where.ranks
        sockets: dict[int, dict[str, socket.socket]] = {rank: {} for rank in range(total)}
        hosts: dict[int, str] = {}
        agents: set[str] = set()  # nodes from which this process was reached
        limit = start_limit()
        end = time.monotonic() + limit
        while any(len(pair) < 2 for pair in sockets.values()):
            if not self.running():
                raise DtlibError(f"The ranks did not start on {self._names()}: {self._reason()}")
            if time.monotonic() > end:
                late = f"Only {len(hosts)} of {total} ranks reached {self.address} in {limit:g} s"
                raise DtlibError(f"{late}; {self._why_late(agents)}")
            greeting = self._accept()
            if greeting is not None:
                hello, connected = greeting
                if hello["kind"] == "agent":
                    agents.add(hello["host"])
                    connected.close()
                    continue
                sockets[hello["rank"]][hello["kind"]] = connected
                hosts[hello["rank"]] = hello["host"]
        return [Remote(self, rank, hosts[rank], pair) for rank, pair in sockets.items()]

    def _accept(self) -> tuple[dict[str, Any], socket.socket] | None:
        """Take a connection that knows the token; others are closed."""
        try:
            connected, _ = self.listener.accept()
        except TimeoutError:
            return None
        connected.settimeout(5.0)
        try:
            hello = json.loads(connected.recv(GREETING, socket.MSG_WAITALL))
            if hmac.compare_digest(hello["token"], self.token):
                connected.settimeout(None)
                return hello, connected
        except (OSError, ValueError, KeyError, TypeError):
            pass
        connected.close()
        return None

    def _why_late(self, agents: set[str]) -> str:
        """Tell a network that does not connect from Python that loads slowly, by the agents.

        An agent needs no torch, so a node whose agent has connected has a working network.
        """
        silent = [host for host in self.where.hosts if host not in agents]
        if not silent:
            return (
                f"all of {self._names()} have reached this process, so their ranks are still "
                "loading torch: set DTLIB_START_LIMIT=600 to wait longer, or use a faster file "
                "system."
            )
        return (
            f"{', '.join(silent)} did not reach this process; check that the nodes can reach "
            "each other, and set MASTER_ADDR to an address that they all can reach."
        )

    def _names(self) -> str:
        return " and ".join(self.where.hosts) if len(self.where.hosts) < 4 else (
            f"{len(self.where.hosts)} nodes")  # fmt: skip

    def _reason(self) -> str:
        """Pick the most helpful line: an agent's sentence, then srun's, then the last line."""
        self._reader.join(2.0)
        lines = [line for line in self.lines if line.strip()]
        for mark in ("dtlib: ", "Error: ", "srun: error: "):
            for line in lines:
                if mark in line:
                    return line.partition(mark)[2] if mark == "dtlib: " else line
        return lines[-1] if lines else f"srun ended with exit code {self.popen.wait()}."

    def end(self, at_once: bool = False) -> None:
        """Wait for the step, whose ranks were released or killed; or let Slurm kill it."""
        self.listener.close()
        for patience in (0.0 if at_once else PATIENCE, PATIENCE):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(patience)
                break
            self.popen.terminate()  # srun then ends the step on all its nodes
        else:
            self.popen.kill()
            self.popen.wait()
        self._reader.join(1.0)


def srun(hosts: Sequence[str], module: str, *flags: str) -> list[str]:
    """Return the command that calls the function `agent` of a module once on each host."""
    command = ["srun", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}"]
    command += ["--ntasks-per-node=1", f"--nodelist={','.join(hosts)}", "--export=ALL"]
    # --overlap: a notebook that itself runs as a step holds the resources that we need
    command += ["--overlap", "--unbuffered", *flags]
    return [*command, sys.executable, "-c", _AGENT.format(root=_ROOT, module=module)]


def random_port() -> int:
    """Return a port below the ephemeral ones; another program may still be using it."""
    return 20000 + secrets.randbelow(10000)
