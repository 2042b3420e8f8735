"""What a probe sees of the machine, and what it reports about it."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from dtlib.ranks.interfaces import interfaces_here
from dtlib.ranks.processes import Ran, run

GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    Attributes
    ----------
    name
        What was examined.
    state
        "ok"; "note" where something optional is absent or small; "missing" where lessons need it.
    found
        What there is, with numbers.
    remedy
        What to do about it; empty if there is nothing to do.
    """

    name: str
    state: Literal["ok", "note", "missing"]
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding as plain values for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Machine:
    """All that probes see; a test replaces the parts that it takes away."""

    env: Mapping[str, str]
    system: str
    python: tuple[int, ...]
    cores: int
    memory_bytes: int
    folder: Path
    run: Callable[[Sequence[str], float], Ran]
    free_bytes: Callable[[Path], int]
    total_bytes: Callable[[Path], int]
    exists: Callable[[Path], bool]
    listen: Callable[[], None]
    interfaces: Callable[[], Sequence[str]]
    installed: Callable[[str], str | None]
    answers: dict[str, Ran] = dataclasses.field(default_factory=dict)
    asking: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @classmethod
    def here(cls) -> Machine:
        """The machine that this process runs on."""
        env = dict(os.environ)
        return cls(
            env=env,
            system=platform.system(),
            python=tuple(sys.version_info[:3]),
            cores=_cores(),
            memory_bytes=_memory_bytes(),
            folder=Path.cwd(),
            run=lambda command, timeout: run(command, timeout, env),
            free_bytes=lambda path: shutil.disk_usage(path).free,
            total_bytes=lambda path: shutil.disk_usage(path).total,
            exists=lambda path: path.exists(),
            listen=_listen,
            interfaces=interfaces_here,
            installed=_installed,
        )

    @property
    def is_mac(self) -> bool:
        """Whether this is macOS, which some probes do not apply to."""
        return self.system == "Darwin"

    def which(self, *names: str) -> str | None:
        """Return the path of the first of these programs that is on PATH, or None."""
        path = self.env.get("PATH", "")
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)

    def ask_inside(self, question: str, timeout: float) -> Ran:
        """Ask `doctor.inside` in a separate process, which may crash or hang."""
        return self.run([sys.executable, "-m", "dtlib.cluster.doctor.inside", question], timeout)

    def torch_facts(self) -> Ran:
        """Return torch's facts about itself; probes that ask at the same time share one import."""
        with self.asking:
            if "torch" not in self.answers:
                self.answers["torch"] = self.ask_inside("torch", 60.0)
            return self.answers["torch"]


def _cores() -> int:
    # A container or a Slurm job may have fewer cores than the machine.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    import psutil

    available = psutil.virtual_memory().available
    # A container's memory limit; the file says "max" if there is none.
    limit, used = (Path(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        available = min(available, int(limit.read_text()) - int(used.read_text()))
    return available


def _listen() -> None:
    """Accept one connection on the loopback interface, at a port that the system chooses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        with socket.create_connection(server.getsockname(), timeout=5):
            server.accept()[0].close()


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
