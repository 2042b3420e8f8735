"""A batch job's page, from its folder and from Slurm's records: queue, starts and runs."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dtlib.cluster import batch
from dtlib.cluster.batch import Job
from dtlib.errors import BadInput
from dtlib.study.report.content import Page, Section, Table, spelled
from dtlib.study.report.runs import end_of, ending, sections_of
from dtlib.training.record import Run

# What slurm/common.sh prints at the beginning and the end of each start
STARTED = re.compile(r"^(\S+ \S+) job \d+(?:, task (\d+))?, start (\d+), on (.+?);?(?: |$)", re.M)
EXIT_CODES = {0: "done", 1: "failed", 2: "bad input", 69: "not available there",
              75: "stopped with a checkpoint, to be resumed"}  # fmt: skip
UNKNOWN = "not known"


class Start(NamedTuple):
    """One start of a job; unknown values are None."""

    number: str
    state: str
    submitted: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None


def page_of_job(folder: Path) -> Page:
    """Make a page from a job's folder, the log next to it, and Slurm's records.

    Raises `BadInput` when the folder doesn't have the name that `slurm/common.sh` gives it.
    """
    folder = folder.resolve()
    job = _job_of(folder)
    starts = from_sacct(job.id) or from_scontrol(job.id)
    page = Page(f"Job {job.id}, {job.name}", _ending(job, starts))
    log = job.log(folder.parent)
    logs = sorted(log.parent.glob(log.name.replace("%a", "*")))
    page.sections = [_queue(starts, page.missing), _starts(folder, logs, page.missing)]
    runs = sorted(path.parent for path in folder.rglob("metrics.jsonl"))
    for path in runs:
        name = str(path.relative_to(folder))
        try:
            run = Run.load(path)
        except BadInput as error:
            page.missing.append(f"run {name}: {error}")
            continue
        page.sections.append(Section(f"Run {name}", [f"How it ended: {ending(run)}"]))
        sections, missing = sections_of(run, level=3)
        page.sections += sections
        page.missing += [f"run {name}: {one}" for one in missing]
    if not runs:
        page.missing.append("runs: the job's folder contains no metrics.jsonl")
    page.sections += [end_of(path, path.name) for path in logs]
    return page


def _job_of(folder: Path) -> Job:
    """Return the job as `dtlib batch` recorded it; after a plain sbatch, only its name and id."""
    named = re.fullmatch(r"(.+)-(\d+)", folder.name)
    if named is None:
        raise BadInput(
            f"the folder {folder} is not named NAME-JOBID, as a job's folder is: restore its name."
        )
    if (folder / "job.json").exists():
        job = batch.read(folder / "job.json")
        if job.folder(folder.parent) == folder:  # otherwise, it is a copy under another name
            return batch.refresh(job, folder.parent)
    return Job(int(named[2]), named[1], "", 0, state=UNKNOWN)


def _ending(job: Job, starts: list[Start]) -> str:
    if job.state != UNKNOWN:
        code = f", exit code {job.exit_code}" if job.exit_code else ""
        return f"{job.state}{code}{f' ({job.reason})' if job.reason else ''}."
    return f"{starts[-1].state}." if starts else "see the exit codes of its starts."


def _queue(starts: list[Start], missing: list[str]) -> Section:
    section = Section("In the queue")
    if not starts:
        missing.append("time in the queue: neither sacct nor scontrol knows the job")
        section.sentences = ["The waiting time is not known: Slurm has no record of the job."]
        return section
    rows = [
        (one.number, one.state, _between(one.submitted, one.started),
         _between(one.started, one.ended), _clock(one.started))
        for one in starts
    ]  # fmt: skip
    head = ("job", "state", "waited", "ran", "from")
    section.tables = [Table("What Slurm reports for each start", head, rows)]
    return section


def from_sacct(number: int) -> list[Start]:
    """Return a job's starts from Slurm's accounting, in order, including those before a requeue."""
    columns = "JobID,State,Submit,Start,End"
    words = ["-X", "-D", "-n", "-P", "-S", "2000-01-01", "-o", columns, "-j", str(number)]
    lines = [line.split("|") for line in batch.ask("sacct", *words).splitlines()]
    return [
        Start(name, state, *map(_time, times))
        for name, state, *times in (line for line in lines if len(line) == 5)
    ]


def from_scontrol(number: int) -> list[Start]:
    """Return the last start of a job, or of each task of an array, from Slurm's controller."""
    found = []
    for line in batch.ask("scontrol", "-o", "show", "job", str(number)).splitlines():
        words = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobState" in words:
            task = words.get("ArrayTaskId")
            times = (words.get(f"{name}Time", "") for name in ("Submit", "Start", "End"))
            name = f"{number}_{task}" if task else str(number)
            found.append(Start(name, words["JobState"], *map(_time, times)))
    return found


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:  # "Unknown", "None"
        return None


def _between(begin: datetime | None, end: datetime | None) -> str:
    return UNKNOWN if begin is None or end is None else spelled((end - begin).total_seconds())


def _clock(time: datetime | None) -> str:
    return UNKNOWN if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def _starts(folder: Path, logs: list[Path], missing: list[str]) -> Section:
    """Return a row for each start, from the log's lines and the exit-code files."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)
    begun = {(task, int(number)): (at, nodes) for at, task, number, nodes in STARTED.findall(text)}
    codes = {}
    for path in folder.glob("exit-code.*"):
        found = re.fullmatch(r"exit-code(?:\.t(\d+))?\.r(\d+)", path.name)
        if found and path.is_file():
            codes[found[1] or "", int(found[2])] = path.read_text(errors="replace").strip()
    section = Section("Starts")
    keys = sorted({*begun, *codes}, key=lambda key: (int(key[0] or -1), key[1]))
    if not keys:
        missing.append("starts: there is no log and no exit code, so the job has not started")
        section.sentences = ["The job has not started."]
        return section
    rows = [
        (f"task {task}, start {number}" if task else f"start {number}",
         *begun.get((task, number), (UNKNOWN, UNKNOWN)), _code(codes.get((task, number))))
        for task, number in keys
    ]  # fmt: skip
    restarts = sum(number > 0 for _, number in keys)
    times = "once" if len(keys) == 1 else f"{len(keys)} times"
    section.sentences = [f"The job was started {times}; restarts among them: {restarts}."]
    section.tables = [Table("Starts", ("start", "at", "nodes", "exit code"), rows)]
    return section


def _code(code: str | None) -> str:
    if code is None:
        return "none was written: it was killed, or is still running"
    meaning = EXIT_CODES.get(int(code)) if code.isdigit() else None
    return f"{code}{f', {meaning}' if meaning else ''}"
