"""Follow the submitted jobs: their state, their logs, their results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dtlib.config.files import writable_folder, write_atomically, write_csv
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput, counted, in_words
from dtlib.ranks.environment import JOB_ENDED as ENDED
from dtlib.ranks.processes import run

MAY_START_AGAIN = ("NODE_FAIL", "PREEMPTED")  # Slurm itself may restart a job that it reported so

Told = tuple[str, str, str]
"""State, exit code, reason."""


@dataclass
class Job:
    """One submitted lesson or script: its number in Slurm, what was requested, its state."""

    id: int
    name: str
    lesson: str  # or the script's name
    nodes: int
    arguments: list[str] = field(default_factory=list)
    state: str = "PENDING"
    exit_code: str = ""
    reason: str = ""
    array: bool = False

    def folder(self, out: Path) -> Path:
        """Return the job's folder, the one that `slurm/common.sh` creates."""
        return out / f"{self.name}-{self.id}"

    def log(self, out: Path) -> Path:
        """Return the path of the log; in an array every task has one, and `%a` is its number."""
        return out / f"{self.name}-{self.id}{'_%a' * self.array}.log"

    def save(self, out: Path) -> None:
        self.folder(out).mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder(out) / "job.json", json.dumps(asdict(self), indent=1) + "\n")


def read(path: Path) -> Job:
    """Read the `job.json` that `dtlib batch submit` wrote.

    Raises `BadInput` when the file is something else.
    """
    try:
        return Job(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(
            f"{path} is damaged ({in_words(error)}); rename it, and the list leaves this job out."
        ) from error


def jobs(out: Path) -> list[Job]:
    """Return the jobs that were submitted from here, oldest first, as their files describe them."""
    return sorted((read(path) for path in out.glob("*/job.json")), key=lambda job: job.id)


def refuse_other(out: Path) -> None:
    """Refuse a path that is not a folder of jobs.

    Raises `BadInput` if the path does not exist or holds other files; an empty folder passes.
    """
    if not out.is_dir() or (any(out.iterdir()) and not any(out.glob("*/job.json"))):
        raise BadInput(
            f"{out} is not a folder of jobs: give the --out that `dtlib batch submit` was run with"
            " (default: batch)."
        )


def refreshed(out: Path) -> list[Job]:
    """Return the jobs with the state that Slurm reports, or last reported."""
    return [refresh(job, out) for job in jobs(out)]


def refresh(job: Job, out: Path) -> Job:
    """Ask Slurm for a job's state, save it, and return the job.

    A job that lost its node or was preempted is asked for again, because Slurm may restart it.
    """
    if job.state in ENDED and job.state not in MAY_START_AGAIN:
        return job
    told = _from_scontrol(job.id) or _from_sacct(job.id) or _from_files(job, out)
    if told and told != (job.state, job.exit_code, job.reason):
        job.state, job.exit_code, job.reason = told
        job.save(out)
    return job


def ask(*command: str) -> str:
    """Return the output of a Slurm program; "" if the program is missing or prints nothing."""
    ran = run(command, 30, apart=True)
    return "" if ran.code is None else ran.output


def _from_scontrol(number: int) -> Told | None:
    """Ask the controller, which forgets a job some time after its end (MinJobAge, often 5 min)."""
    tasks = []
    for line in ask("scontrol", "-o", "show", "job", str(number)).splitlines():
        words = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobState" in words:
            reason = words.get("Reason", "None")
            told = words["JobState"], words.get("ExitCode", ""), "" if reason == "None" else reason
            tasks.append((words.get("ArrayTaskId", ""), told))
    return _of_all(tasks)


def _from_sacct(number: int) -> Told | None:
    tasks = []
    said = ask("sacct", "-X", "-n", "-P", "-o", "JobID,State,ExitCode", "-j", str(number))
    for line in said.splitlines():
        name, _, rest = line.partition("|")
        state, bar, code = rest.partition("|")
        if bar:
            tasks.append((name.partition("_")[2], (state.split()[0], code, "")))
    return _of_all(tasks)


def _from_files(job: Job, out: Path) -> Told | None:
    """Read the exit codes that the scripts wrote; the latest start of each task counts."""
    codes = sorted(job.folder(out).glob("exit-code.*"), key=lambda path: path.stat().st_mtime)
    last = {path.name.rpartition(".r")[0]: path.read_text().strip() for path in codes}
    tasks = [
        (name.partition(".t")[2], ("COMPLETED" if code == "0" else "FAILED", f"{code}:0", ""))
        for name, code in last.items()
    ]
    return _of_all(tasks)


def _of_all(tasks: Sequence[tuple[str, Told]]) -> Told | None:
    """Return the state of a job from the states of its tasks: an array has several.

    It is running while any task runs, otherwise pending while any waits; in the end it has failed
    if any task has.
    """
    if len(tasks) < 2:
        return tasks[0][1] if tasks else None
    bad = [(task, told) for task, told in tasks if told[0] in ENDED and told[0] != "COMPLETED"]
    reason = ", ".join(f"task {task} {state}" for task, (state, _, _) in bad)
    on_its_way = [state for _, (state, _, _) in tasks if state not in ENDED]
    if on_its_way:
        return "RUNNING" if "RUNNING" in on_its_way else on_its_way[0], "0:0", reason
    state, exit_code, _ = bad[0][1] if bad else tasks[0][1]
    return state, exit_code, reason


def status(out: Path, *, as_json: bool = False) -> int:
    """Print a line for each job."""
    everything = refreshed(out)
    if as_json:
        print(to_json([{**asdict(job), "log": job.log(out)} for job in everything]))
        return 0
    if not everything:
        print(f"No jobs in {out}: `dtlib batch submit NN` submits one.")
        return 0
    wide = max(7, *(len(job.lesson) + 2 for job in everything))
    print(f"{'job':>8}  {'what':<{wide}}{'nodes':<7}{'state':<12}{'exit':<8}log")
    for job in everything:
        row = f"{job.id:>8}  {job.lesson:<{wide}}{job.nodes:<7}{job.state:<12}{job.exit_code:<8}"
        print(row + str(job.log(out)) + (f"  ({job.reason})" if job.reason else ""))
    return 0


def collect(out: Path, to: Path | None = None, *, as_json: bool = False) -> int:
    """Copy all notebooks into one folder, named by job and restart; write a table of the runs."""
    from dtlib.training.record import COLUMNS, Run

    target = writable_folder((to or out / "collected").resolve(), "--to" if to else "--out")
    runs: list[Run] = []
    copied: list[dict[str, str]] = []
    for job in refreshed(out):
        for notebook in sorted(job.folder(out).glob("r*/*/*.ipynb")):
            kind, restart = notebook.parent.name, notebook.parent.parent.name
            name = f"{notebook.stem}-{kind}-job{job.id}-{restart}.ipynb"
            shutil.copy2(notebook, target / name)
            copied.append({"state": job.state, "file": str(target / name)})
            if not as_json:
                print(f"{job.state:<12}{target / name}")
        found = job.folder(out).rglob("summary.json")
        runs += [Run.load(path.parent) for path in sorted(found)]
    write_csv(target / "runs.csv", COLUMNS, [run.row() for run in runs])
    table = target / "runs.csv"
    if as_json:
        print(to_json({"notebooks": copied, "runs": len(runs), "table": table}))
    else:
        print(f"{counted(len(copied), 'notebook')}, and {counted(len(runs), 'run')} in {table}")
    return 0
