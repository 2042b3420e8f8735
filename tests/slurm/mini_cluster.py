"""What a test does with the two-node Slurm of `start_slurm.sh`."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lesson_sources
import psutil

from dtlib.training.record import read_lines

PROJECT = Path(__file__).parents[2]
# In a job's environment: its training steps sleep, so that it outlives what Slurm does in time.
SLOW_STEPS = {"PYTHONPATH": f"{Path(__file__).with_name('slow_steps')}{os.pathsep}{PROJECT}"}
LIMIT = 480.0  # seconds that a test waits for anything: a job is over, or the test fails


@dataclass
class Slurm:
    """What a test does with the cluster."""

    folder: Path
    env: dict[str, str]
    ids: list[str] = field(default_factory=list)

    def run(self, *command: str, check: bool = True, **env: str) -> str:
        """Run a command as a user of the cluster, and return what it printed."""
        done = subprocess.run(
            command,
            env=self.env | env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def dtlib(self, *words: str, check: bool = True, **env: str) -> str:
        return self.run(sys.executable, "-m", "dtlib", *words, check=check, **env)

    def submit(self, *words: str, **env: str) -> str:
        """`dtlib batch submit …`: return the job's number."""
        said = self.dtlib("batch", "submit", "--out=batch", "--cpus-per-task=2", *words, **env)
        return self._note(said.split()[1].rstrip(":"))

    def lesson(self, *cells: str) -> dict[str, str]:
        """Write a lesson 80, and return the variable with which it is found."""
        sources = self.folder / "lessons_src"
        lesson_sources.write(sources, "80", *cells)
        return {"DTLIB_LESSONS": str(sources)}

    def sbatch(self, *words: str, **env: str) -> str:
        return self._note(self.run("sbatch", "--parsable", *words, **env).strip())

    def script(self, name: str, *words: str, options: tuple[str, ...] = (), **env: str) -> str:
        """Submit a script of `slurm/` by plain sbatch, on two nodes; return the job's number."""
        ours = {"DTLIB_HOME": str(PROJECT), "DTLIB_PYTHON": sys.executable}
        ours["DTLIB_BATCH_OUT"] = str(self.folder / "batch")
        sized = ("--nodes=2", "--cpus-per-task=2", *options)
        return self.sbatch(*sized, str(PROJECT / "slurm" / name), *words, **ours | env)

    def _note(self, number: str) -> str:
        self.ids.append(number)
        return number

    def waited(self, number: str) -> str:
        """Wait until a job has ended, and return its state and exit code: "FAILED 1:0"."""
        self.until(lambda: self.over(number))
        return self.state(number)

    def over(self, number: str) -> bool:
        return not self.run("squeue", "-h", "-j", number, check=False).strip()

    def state(self, number: str) -> str:
        shown = self.run("scontrol", "-o", "show", "job", number)
        words = dict(word.partition("=")[::2] for word in shown.split())
        return f"{words['JobState']} {words['ExitCode']}"

    def until(self, happened: Callable[[], object], running: str = "") -> None:
        """Wait until something has happened, while the job `running` is not over."""
        end = time.monotonic() + LIMIT
        while not happened():
            assert time.monotonic() < end, f"not within {LIMIT:g} s\n{self.logs()}"
            assert not running or happened() or not self.over(running), self.logs()
            time.sleep(0.2)

    def made(self, number: str) -> Path:
        """The folder of a job."""
        return next(path for path in self.folder.glob(f"batch/*-{number}") if path.is_dir())

    def exit_codes(self, number: str) -> list[str]:
        """What each start of a job ended with, by its own file."""
        files = sorted(self.made(number).glob("exit-code.r*"))
        return [path.read_text().strip() for path in files]

    @contextlib.contextmanager
    def lost(self, node: str) -> Iterator[None]:
        """A node without power, and so without all that ran on it; afterwards it boots.

        Its link goes first: nobody hears from the processes that end.
        """
        link = ["ip", "link", "set", node.replace("n", "dtlib")]
        subprocess.run([*link, "down"], check=True)
        inside = ["ip", "netns", "pids", node.replace("n", "dtlib-n")]
        for pid in subprocess.run(inside, capture_output=True, text=True).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            yield
        finally:
            subprocess.run([*link, "up"], check=True)
            cluster = Path(self.env["SLURM_CONF"]).parents[1]
            start = Path(__file__).with_name("start_slurm.sh")
            subprocess.run([start, cluster], check=True, capture_output=True, timeout=120)

    def node(self, name: str) -> str:
        """How Slurm sees a node: "IDLE", "DOWN+DRAIN+NOT_RESPONDING" …; and why."""
        shown = self.run("scontrol", "-o", "show", "node", name)
        reason = re.search(r"Reason=.*", shown)
        return " ".join([*re.findall(r"State=\S+", shown), reason[0] if reason else ""])

    def log(self, number: str) -> str:
        """What a job printed, or all tasks of an array."""
        names = (f"*-{number}.log", f"*-{number}_*.log")
        files = [path for name in names for path in sorted(self.folder.rglob(name))]
        return "".join(path.read_text() for path in files)

    def logs(self) -> str:
        nodes = [f"{name}: {self.node(name)}" for name in ("n1", "n2")]
        return "\n".join(nodes + [f"job {number}:\n{self.log(number)}" for number in self.ids[-1:]])

    def processes(self, number: str) -> list[str]:
        """The processes of a job on any node: they all run on this machine."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("SLURM_JOB_ID") == number:
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                continue
        return found


def steps(run: Path) -> list[int]:
    """The steps that a run has noted."""
    return [line["step"] for line in read_lines(run / "metrics.jsonl")]
