"""What the benches share: the machine's name, fresh processes in turn, clocks, one table.

A bench compares contestants. Each run of a contestant is a fresh process, so that imports and
thread pools never mix, and the runs take turns (A B C, A B C, …), so that a machine that gets
busy or hot meets all of them alike.
"""

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
ROOT_PID = "BENCH_ROOT_PID"  # the process whose whole tree pays for a contestant


def cpu_name() -> str:
    """The processor's name as the machine gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    """One line: cores, CPU, system, versions and load, for the head of a table."""
    from importlib.metadata import version

    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"{psutil.cpu_count()} cores, {cpu_name()}, {platform.system()}, "
        f"Python {platform.python_version()}, torch {version('torch')}, "
        f"load {load} at {time.strftime('%Y-%m-%d %H:%M')}"
    )


def tree_cpu_seconds(root: int | None = None) -> float:
    """User and system seconds so far of a process and all its descendants.

    Without the id ``root`` of one, it is the one that ``run_fresh`` started, else this process.

    This process is read from its own fine clock; others tick in hundredths of a second. A
    descendant that ended is counted once its parent has waited for it (Linux; macOS keeps no
    such sum), so read both stamps of an interval while the workers live.
    """
    root = root or int(os.environ.get(ROOT_PID, os.getpid()))
    top = psutil.Process(root)
    tree = [top, *top.children(recursive=True)]
    assert os.getpid() in {process.pid for process in tree}, "this process is outside the tree"
    total = 0.0
    for process in tree:
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += getattr(spent, "children_user", 0.0) + getattr(spent, "children_system", 0.0)
        if process.pid == os.getpid():
            total += time.process_time()
        else:
            total += spent.user + spent.system
    return total


class Stopwatch:
    """Reads the wall clock and the CPU clock of the whole process tree, twice."""

    def __init__(self) -> None:
        self.readings: list[tuple[float, float]] = []

    def read(self) -> None:
        self.readings.append((time.perf_counter(), tree_cpu_seconds()))

    def seconds(self) -> dict[str, float]:
        """``wall_s`` and ``cpu_s`` between the first reading and the last."""
        (wall, cpu), (wall_end, cpu_end) = self.readings[0], self.readings[-1]
        return {"wall_s": wall_end - wall, "cpu_s": cpu_end - cpu}


def run_fresh(command: Sequence[str], *, timeout: float, **env: str) -> dict:
    """Run a command in a fresh process group; its last line on stdout is its JSON answer.

    Raises
    ------
    RuntimeError
        It failed, or took longer than ``timeout`` seconds; the end of its output is quoted.
    """
    # Every contestant computes on as many threads: one a process.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **env}
    process = subprocess.Popen(
        # The process notes its own id and becomes the command: the root of the tree it pays for.
        ["/bin/sh", "-c", f'export {ROOT_PID}=$$; exec "$@"', "sh", *command],
        env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as stopped:
        end(process)
        if isinstance(stopped, subprocess.TimeoutExpired):
            raise RuntimeError(f"{' '.join(command)} took over {timeout:.0f} s") from None
        raise
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} exited {process.returncode}:\n{err[-3000:]}")
    return json.loads(out.strip().splitlines()[-1])


def end(process: subprocess.Popen) -> None:
    """End a process group: torchrun ends its ranks when asked, and leaves them when killed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def contestant(script: str, **request: object) -> list[str]:
    """The command that runs one contestant: a script beside this file and its request in JSON."""
    return [sys.executable, str(HERE / script), json.dumps(request)]


def interleave(
    names: Sequence[str], repeats: int, run: Callable[[str], dict]
) -> dict[str, list[dict]]:
    """Run every contestant once, then again, ``repeats`` times; progress goes to stderr."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `run_fresh` cleans up
    results: dict[str, list[dict]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names:
            print(f"repeat {repeat + 1} of {repeats}: {name}", file=sys.stderr, flush=True)
            results[name].append(run(name))
    return results


def spread(values: Iterable[float], digits: int = 0) -> str:
    """``median (min–max)``."""
    values = list(values)
    low, middle, high = (
        f"{one:,.{digits}f}" for one in (min(values), statistics.median(values), max(values))
    )
    return f"{middle} ({low}–{high})"


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Quotients of runs that stood next to each other in the same repeat."""
    return [top / bottom for top, bottom in zip(over, under, strict=True)]


def show(title: str, notes: Sequence[str], head: Sequence[str], rows: Sequence[Sequence]) -> None:
    """Print the table: title, machine, notes, aligned columns."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    print(f"\n{title}\n{machine()}")
    for note in notes:
        print(note)
    print()
    for number, row in enumerate(cells):
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
