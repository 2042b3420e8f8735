"""`dtlib batch submit | status | collect`: lessons as Slurm jobs.

Every job has a folder, `batch/NAME-JOBID`: `job.json` says what was submitted, `r0/`, `r1/` … hold
what each start of the job made (a requeued job starts again), `exit-code.r0` how it ended. The log
lies beside it. So the state of a job can be told when Slurm has long forgotten it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dtlib.errors import BadInput, Unavailable
from dtlib.files import write_atomically
from dtlib.learn.source import Lesson, find, lessons

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL",
         "DEADLINE")  # fmt: skip


@dataclass
class Job:
    """One submitted lesson: its number in Slurm, what was asked for, and how it stands."""

    id: int
    name: str
    lesson: str
    nodes: int
    arguments: list[str] = field(default_factory=list)
    state: str = "PENDING"
    exit_code: str = ""
    reason: str = ""

    def folder(self, out: Path) -> Path:
        """The folder that `slurm/common.sh` makes, too."""
        return out / f"{self.name}-{self.id}"

    def log(self, out: Path) -> Path:
        return out / f"{self.name}-{self.id}.log"

    def save(self, out: Path) -> None:
        self.folder(out).mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder(out) / "job.json", json.dumps(asdict(self), indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and carry out; returns the exit code, raises `DtlibError` for what cannot be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    words, further = _split(words)
    args = parser().parse_args(words)
    out = _out(args.out)
    if args.command == "submit":
        return submit(args, out, further)
    if further:
        raise BadInput(f"{args.command} takes nothing after --.")
    return status(out) if args.command == "status" else collect(out, args.to)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def parser() -> argparse.ArgumentParser:
    """The command line of `dtlib batch`."""
    top = argparse.ArgumentParser(prog="dtlib batch", description="Lessons as Slurm jobs.")
    commands = top.add_subparsers(dest="command", required=True)
    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", type=Path, help="folder of the jobs (default: batch)")
    submitting = commands.add_parser(
        "submit",
        parents=[out],
        help="hand a lesson to sbatch",
        usage="dtlib batch submit NN [--nodes N] [--gpus-per-node G] [--time T] [-p NAME=VALUE] "
        "[-- SBATCH-OPTION …]",
    )
    submitting.add_argument("lesson", metavar="NN")
    submitting.add_argument("--nodes", type=int, default=1)
    submitting.add_argument("--gpus-per-node", type=int, default=0, metavar="G")
    submitting.add_argument("--cpus-per-task", type=int, metavar="C", help="CPUs of each node")
    submitting.add_argument("--time", metavar="T", help="as sbatch reads it: 90, 1:30:00, 1-0")
    submitting.add_argument("--kind", choices=("student", "instructor"), default="student")
    submitting.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    commands.add_parser("status", parents=[out], help="how each job stands")
    collecting = commands.add_parser(
        "collect", parents=[out], help="gather the notebooks, and a table of the runs"
    )
    collecting.add_argument("--to", type=Path, help="folder (default: collected, among the jobs)")
    return top


def home() -> Path:
    """The folder of the course, which holds `slurm/`."""
    return Path(__file__).resolve().parent.parent


def _out(given: Path | None) -> Path:
    """Return the folder of the jobs: `--out`, else the site's, else `batch` here."""
    return Path(given or site_variables().get("DTLIB_BATCH_OUT") or "batch").resolve()


def site_variables() -> dict[str, str]:
    """Read the site's settings as the shell does, and return the environment with them."""
    site = Path(os.environ.get("DTLIB_SITE") or home() / "slurm" / "site.env")
    if not site.is_file():
        return dict(os.environ)
    script = 'set -a; . "$1" >&2; set +a; env -0'
    done = subprocess.run(
        ["bash", "-euc", script, "site", str(site)], capture_output=True, text=True
    )
    if done.returncode:
        said = (done.stderr.strip() or "no message").splitlines()[-1]
        raise BadInput(f"the site settings {site} cannot be read: {said}.")
    pairs = (entry.partition("=") for entry in done.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs}


def submit(args: argparse.Namespace, out: Path, further: Sequence[str]) -> int:
    """Hand a lesson to sbatch, after refusing what would fail in the job.

    Raises
    ------
    BadInput
        For an unknown lesson or parameter, a number below 1, or what sbatch refuses.
    Unavailable
        Where there is no sbatch.
    """
    from dtlib.lessons.run import read_parameters
    from dtlib.lessons.validate import validate_all

    lesson = find(args.lesson)
    validate_all(lessons(lesson.path.parent))
    read_parameters([lesson], args.parameter)
    if args.nodes < 1 or args.gpus_per_node < 0:
        raise BadInput(
            f"--nodes {args.nodes} must be at least 1, --gpus-per-node {args.gpus_per_node} 0."
        )
    _need("sbatch", f"`dtlib lessons run {lesson.number}` runs it on this machine")
    out.mkdir(parents=True, exist_ok=True)
    command = sbatch_command(lesson, args, out, further)
    job_id = _sbatch(command, out)
    job = Job(job_id, f"dtlib-{lesson.stem}", lesson.number, args.nodes, command[1:])
    job.save(out)
    nodes = f"{args.nodes} node" + ("s" if args.nodes > 1 else "")
    print(f"Job {job_id}: lesson {lesson.number} on {nodes}. Its log: {job.log(out)}")
    print("`dtlib batch status` says how it stands, `dtlib batch collect` brings its notebook.")
    return 0


def sbatch_command(
    lesson: Lesson, args: argparse.Namespace, out: Path, further: Sequence[str]
) -> list[str]:
    """Return the sbatch command that runs the lesson."""
    name = f"dtlib-{lesson.stem}"
    command = ["sbatch", "--parsable", f"--job-name={name}", f"--nodes={args.nodes}"]
    command += [f"--output={out / '%x-%j.log'}", f"--chdir={Path.cwd()}"]
    if args.gpus_per_node:
        command.append(f"--gpus-per-node={args.gpus_per_node}")
    if args.cpus_per_task:
        command.append(f"--cpus-per-task={args.cpus_per_task}")
    if args.time:
        command.append(f"--time={args.time}")
    command += [*further, str(home() / "slurm" / "lesson.sbatch"), lesson.number]
    command += ["--kind", args.kind]
    return command + [word for text in args.parameter for word in ("-p", text)]


def _sbatch(command: Sequence[str], out: Path) -> int:
    ours = {
        "DTLIB_HOME": str(home()),
        "DTLIB_BATCH_OUT": str(out),
    }
    site = site_variables()
    ours["DTLIB_PYTHON"] = site.get("DTLIB_PYTHON", sys.executable)
    done = subprocess.run(command, env={**site, **ours}, capture_output=True, text=True)
    number = re.match(r"\d+", done.stdout)
    if done.returncode or number is None:
        lines = [line for line in done.stderr.splitlines() if line.startswith("sbatch: error: ")]
        said = (lines or done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BadInput(f"sbatch refused the job: {said.removeprefix('sbatch: error: ')}.")
    return int(number[0])


def _need(program: str, instead: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(
            f"there is no {program} here: run `dtlib batch` on a login node of a Slurm cluster "
            f"({instead})."
        )


def read(path: Path) -> Job:
    """Read what `dtlib batch submit` wrote down of a job.

    Raises
    ------
    BadInput
        when it is something else.
    """
    try:
        return Job(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it.") from error


def jobs(out: Path) -> list[Job]:
    """The jobs that were submitted from here, oldest first, as their files say."""
    found = [read(path) for path in out.glob("*/job.json")]
    return sorted(found, key=lambda job: job.id)


def refreshed(out: Path) -> list[Job]:
    """The jobs with the state that Slurm tells, or told last."""
    return [refresh(job, out) for job in jobs(out)]


def refresh(job: Job, out: Path) -> Job:
    """Ask Slurm how a job stands, write that down, and return the job."""
    if job.state in ENDED:
        return job
    told = _from_scontrol(job.id) or _from_sacct(job.id) or _from_files(job, out)
    if told and told != (job.state, job.exit_code, job.reason):
        job.state, job.exit_code, job.reason = told
        job.save(out)
    return job


def ask(*command: str) -> str:
    """Return what a program of Slurm says, or nothing where it is missing or has nothing to say."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _from_scontrol(number: int) -> tuple[str, str, str] | None:
    """Slurm's controller knows a job until a while after its end (MinJobAge, often 5 minutes)."""
    words: Mapping[str, str] = dict(
        re.findall(r"(\w+)=(\S*)", ask("scontrol", "-o", "show", "job", str(number)))
    )
    if "JobState" not in words:
        return None
    reason = words.get("Reason", "None")
    return words["JobState"], words.get("ExitCode", ""), "" if reason == "None" else reason


def _from_sacct(number: int) -> tuple[str, str, str] | None:
    text = ask("sacct", "-X", "-n", "-P", "-o", "State,ExitCode", "-j", str(number))
    state, bar, code = text.strip().partition("|")
    return (state.split()[0], code, "") if bar else None


def _from_files(job: Job, out: Path) -> tuple[str, str, str] | None:
    codes = sorted(job.folder(out).glob("exit-code.r*"), key=lambda path: path.stat().st_mtime)
    if not codes:
        return None
    code = codes[-1].read_text().strip()
    return "COMPLETED" if code == "0" else "FAILED", f"{code}:0", ""


def status(out: Path) -> int:
    """Print a line for each job."""
    everything = refreshed(out)
    if not everything:
        print(f"No jobs in {out}: `dtlib batch submit NN` makes one.")
        return 0
    print(f"{'job':>8}  {'lesson':<7}{'nodes':<7}{'state':<12}{'exit':<8}log")
    for job in everything:
        row = f"{job.id:>8}  {job.lesson:<7}{job.nodes:<7}{job.state:<12}{job.exit_code:<8}"
        print(row + str(job.log(out)) + (f"  ({job.reason})" if job.reason else ""))
    return 0


def collect(out: Path, to: Path | None = None) -> int:
    """Copy all notebooks into one folder, their names with job and restart, and write a table."""
    from dtlib.record import Run, write_csv

    target = (to or out / "collected").resolve()
    target.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    count = 0
    for job in refreshed(out):
        for notebook in sorted(job.folder(out).glob("r*/*/*.ipynb")):
            kind, restart = notebook.parent.name, notebook.parent.parent.name
            name = f"{notebook.stem}-{kind}-job{job.id}-{restart}.ipynb"
            shutil.copy2(notebook, target / name)
            print(f"{job.state:<12}{target / name}")
            count += 1
        found = job.folder(out).rglob("summary.json")
        runs += [Run.load(path.parent) for path in sorted(found)]
    write_csv(target / "runs.csv", runs)
    print(f"{count} notebooks, and {len(runs)} runs in {target / 'runs.csv'}")
    return 0
