"""Measure the records of lessons 27 and 28 on a machine with one GPU, in at most ten minutes.

    python slurm/gpu_records.py                  # writes the records in both lessons
    python slurm/gpu_records.py --rehearse       # small, anywhere, changes no record

papermill runs lesson 27 up to its ladder of settings on one GPU, and lesson 28 up to its table, for
gpt2 and gpt2-medium; then GPT-2 trains compiled, and torch.profiler traces three steps. When the
time is up, what has finished is recorded and the rest is not. Notebooks, runs and the trace stay
in the folder `--out`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import platform
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.config.files import writable_folder, write_atomically, write_csv
from dtlib.errors import BadInput, DtlibError, Unavailable
from dtlib.learn.recorded import device, recorded
from dtlib.learn.source import find
from dtlib.lessons.run import Job, run_notebooks
from dtlib.training.record import Run, commit

PACKAGES = ("torch", "transformers", "deepspeed", "dtlib")
FULL: dict[str, dict[str, Any]] = {
    "27": {"size": "full", "repeats": 2},
    "28": {"size": "full", "models": "gpt2,gpt2-medium"},
}
SMALL: dict[str, dict[str, Any]] = {
    "27": {"repeats": 1},
    "28": {"models": "nano", "strategies": "single,ddp"},
}
# The first heading that needs more than the lesson's record: the notebook ends before it.
ENDS = {"27": "## Strong scaling", "28": "## Scale up"}
FOR_THE_TRACE = 90  # seconds that lesson 28 must leave
SETTINGS = (
    "model", "strategy", "global_batch", "micro_batch", "max_length", "precision", "compile",
    "channels_last", "loader", "workers",
)  # fmt: skip
"""The settings that distinguish the rows of the ladder; repeats have the same."""


class TimeUp(DtlibError):
    """The time of a part is up."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End the block after this many seconds, and print that; what it has done stays."""

    def end(*_: object) -> None:
        raise TimeUp("the time is up")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(max(1, int(seconds)))
    try:
        yield
    except TimeUp:
        print(f"The time is up after {seconds:.0f} s: the rest is left out.", flush=True)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_lesson(number: str, values: dict[str, Any], out: Path, seconds: float) -> list[Run]:
    """Run a lesson's notebook up to `ENDS`, and return its completed runs in order."""
    lesson = find(number)
    heads = [cell.kind == "markdown" and ENDS[number] in cell.text for cell in lesson.cells]
    if True not in heads:
        raise BadInput(f"lesson {number} has no heading {ENDS[number]!r} any more: correct ENDS.")
    lesson.cells = lesson.cells[: heads.index(True)]
    job = Job(lesson, "instructor", out / number / f"{lesson.stem}.ipynb")
    with at_most(seconds):
        run_notebooks([job], values, jobs=1, timeout=int(seconds) + 1)
    if job.error:
        print(f"Lesson {number} ended early: {job.error}", flush=True)
    done = sorted((out / number).rglob("summary.json"), key=lambda path: path.stat().st_mtime)
    return [Run.load(path.parent) for path in done]


def ladder(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each setting of lesson 27's ladder: images/s of its n runs."""
    groups = collections.defaultdict(list)
    for run in runs:
        groups[tuple(run.config.get(name) for name in SETTINGS)].append(run)
    rows = []
    for setting, same in groups.items():
        rates = [run.summary["throughput"] for run in same]
        row = dict(zip(SETTINGS, setting, strict=True))
        row |= {"n": len(rates), "timed_steps": same[0].row()["timed_steps"]}
        row |= {"images_per_second": statistics.median(rates), "slowest": min(rates)}
        row |= {"fastest": max(rates), "memory_peak_bytes": same[0].row()["memory_peak_bytes"]}
        rows.append(row)
    return rows


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each run of lesson 28's table, as the lesson reads them: n = 1."""
    own = ("max_length", "compile")
    return [{**run.row(), **{key: run.config.get(key) for key in own}, "n": 1} for run in runs]


def trace(first: Run, changes: dict[str, Any], out: Path, seconds: float) -> dict[str, Any] | None:
    """Repeat lesson 28's first run with the profiler, and return what the trace shows."""
    from dtlib.training import start

    fields = {field.name for field in dataclasses.fields(RunConfig)}
    settings = {key: value for key, value in first.config.items() if key in fields}
    # accumulation follows from the batch; the ledger would add its own work to the trace
    settings |= {"accumulation": None, "ledger": False, "profile": True, "resume": False}
    settings |= {"steps": 30, "untimed_steps": 10, "checkpoint_every": 0, **changes}
    run = None
    with at_most(seconds):
        run = start.train(RunConfig.from_mapping({**settings, "out": str(out / "trace")}))
    if run is None:
        return None
    (row,) = table([run])
    shown = ("comm_share", "data_share")
    return {**row, **{key: run.summary.get(key) for key in shown}, **longest(run.folder)}


def longest(folder: Path, most: int = 10) -> dict[str, Any]:
    """Name the GPU kernels (on a CPU: the operations) that a trace spends most time in."""
    file = folder / "profile" / "rank0.json"
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    timed = [event for event in events if "dur" in event]
    kinds = {event.get("cat") for event in timed}
    kind = "kernel" if "kernel" in kinds else "cpu_op"
    spent: dict[str, list[float]] = collections.defaultdict(list)
    for event in timed:
        if event.get("cat") == kind:
            spent[event["name"]].append(event["dur"] / 1000)
    top = sorted(spent, key=lambda name: -sum(spent[name]))[:most]
    rows = [{"name": name, "calls": len(spent[name]), "ms": sum(spent[name])} for name in top]
    return {"trace": str(file), "kind": kind, "longest": rows}


def about(made_by: str) -> dict[str, Any]:
    """Return what these records were measured on, in the form that all records have."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {"device": device(), "versions": versions, "date": date.today().isoformat(),
            "commit": made_by}  # fmt: skip


def write_records(said: dict[str, Any], found: dict[str, Any]) -> None:
    """Write the measurements into the lessons' folders, and read them as the lessons do."""
    if rows := found["ladder"]:
        versions = ", ".join(f"{name} {number}" for name, number in said["versions"].items())
        rows = [{**row, **said, "versions": versions} for row in rows]
        _write("27_gpu_ladder", ".csv", lambda path: write_csv(path, [*rows[0]], rows))
    if found["table"]:
        results = {"rows": found["table"], "trace": found["trace"]}
        text = json.dumps({"about": said, "results": results}, indent=1) + "\n"
        _write("28_gpt2", ".json", lambda path: write_atomically(path, text))


def _write(name: str, suffix: str, write: Callable[[Path], None]) -> None:
    path = find(name[:2]).room / "records" / (name + suffix)
    path.parent.mkdir(exist_ok=True)
    write(path)
    recorded(name)  # prints device and date
    print(f"The record is in {path}.")


def measure(settings: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Run the three parts, each in the time that is left."""
    end = time.monotonic() + 60 * settings.minutes

    def left(keep: float = 0) -> float:
        return end - time.monotonic() - keep

    values = SMALL if settings.rehearse else FULL
    changes: dict[str, Any] = {"steps": 12, "untimed_steps": 6}
    if not settings.rehearse:
        batch = settings.trace_batch
        changes = {"compile": True, "global_batch": batch, "micro_batch": batch}
    data = {"data": settings.data} if settings.data else {}
    # the ladder may take half of the time; otherwise there might be no table
    rungs = run_lesson("27", values["27"], out, left(30 * settings.minutes))
    runs = run_lesson("28", {**values["28"], **data}, out, left(FOR_THE_TRACE))
    traced = trace(runs[0], changes, out, left()) if runs and left() > 5 else None
    return {"ladder": ladder(rungs), "table": table(runs), "trace": traced}


def show(found: dict[str, Any]) -> None:
    """Print the figures, in case only the output is kept."""
    for row in found["ladder"]:
        print({key: row[key] for key in (*SETTINGS, "n", "images_per_second") if row[key]})
    for row in (*found["table"], *filter(None, [found["trace"]])):
        keys = ("model", "strategy", "precision", "compile", "global_batch", "micro_batch",
                "max_length", "n", "throughput", "memory_peak_bytes", "loss")  # fmt: skip
        print({key: row[key] for key in keys})


def main(words: Sequence[str] | None = None) -> int:
    """Check, measure, write and print the records; return 1 if one of the three is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_records"))
    parser.add_argument("--minutes", type=float, default=10, help="time for all parts together")
    parser.add_argument("--data", default="", help="a text on this machine (default: lesson 28's)")
    parser.add_argument("--trace-batch", type=int, default=32, help="windows per step in the trace")
    parser.add_argument("--commit", default=commit(), help="the commit, in a copy without git")
    parser.add_argument("--rehearse", action="store_true", help="a small trial, records in --out")
    settings = parser.parse_args(words)
    try:
        refuse(settings)
        out = writable_folder(settings.out).resolve()
        for part in ("27", "28", "trace", "lessons_src"):  # of an earlier start
            shutil.rmtree(out / part, ignore_errors=True)
        if settings.rehearse:
            own = shutil.copytree(find("27").room.parent, out / "lessons_src")
            os.environ["DTLIB_LESSONS"] = str(own)
        found = measure(settings, out)
        write_records(about(settings.commit), found)
        show(found)
    except DtlibError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0 if all(found.values()) else 1


def refuse(settings: argparse.Namespace) -> None:
    """Refuse a machine without a GPU, and a copy whose commit is unknown."""
    import torch

    if not (settings.rehearse or torch.cuda.is_available()):
        raise Unavailable(
            "torch finds no NVIDIA GPU here, and these records need one: run this where"
            " `dtlib doctor` finds one, or try --rehearse."
        )
    if not settings.commit:
        raise BadInput("this copy is not a git checkout: give its commit with --commit.")


if __name__ == "__main__":
    sys.exit(main())
