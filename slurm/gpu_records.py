"""One machine with one GPU, ten minutes at most: the records of lessons 27 and 28.

    python slurm/gpu_records.py                  # the records are in the two lessons' rooms
    python slurm/gpu_records.py --rehearse       # on any machine: small, and no record is touched

papermill runs lesson 27 up to its ladder of settings on one GPU, and lesson 28 up to its table, at
gpt2 and gpt2-medium; then GPT-2 trains compiled, with torch.profiler's trace of three steps. What
was done when the time is up is recorded, the rest is not. Notebooks, runs and the trace stay in
the folder of `--out`.
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
FOR_THE_TRACE = 90  # seconds that lesson 28 has to leave
SETTINGS = (
    "model", "strategy", "global_batch", "micro_batch", "max_length", "precision", "compile",
    "channels_last", "loader", "workers",
)  # fmt: skip
"""What tells one row of the ladder from another, and is equal in its repeats."""


class TimeUp(DtlibError):
    """The seconds of a part are over."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """End the block when so many seconds are over; what it did is done, and that is said."""

    def end(*_: object) -> None:
        raise TimeUp("the time is up")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(max(1, int(seconds)))
    try:
        yield
    except TimeUp:
        print(f"The time is up after {seconds:.0f} s: what is not done stays undone.", flush=True)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_lesson(number: str, values: dict[str, Any], out: Path, seconds: float) -> list[Run]:
    """Run a lesson's notebook up to `ENDS` and return its runs that are done, in their order."""
    lesson = find(number)
    heads = [cell.kind == "markdown" and ENDS[number] in cell.text for cell in lesson.cells]
    if True not in heads:
        raise BadInput(f"lesson {number} has no heading {ENDS[number]!r} any more: mend ENDS here.")
    lesson.cells = lesson.cells[: heads.index(True)]
    job = Job(lesson, "instructor", out / number / f"{lesson.stem}.ipynb")
    with at_most(seconds):
        run_notebooks([job], values, jobs=1, timeout=int(seconds) + 1)
    if job.error:
        print(f"Lesson {number} ended early: {job.error}", flush=True)
    done = sorted((out / number).rglob("summary.json"), key=lambda path: path.stat().st_mtime)
    return [Run.load(path.parent) for path in done]


def ladder(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each setting of lesson 27's ladder: images/s of its n runs."""
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
    """A row for each run of lesson 28's table, as the lesson reads them: one run each, n = 1."""
    own = ("max_length", "compile")
    return [{**run.row(), **{key: run.config.get(key) for key in own}, "n": 1} for run in runs]


def trace(first: Run, changes: dict[str, Any], out: Path, seconds: float) -> dict[str, Any] | None:
    """Train as lesson 28's first run did, profiled, and say what the trace of three steps shows."""
    from dtlib.training import start

    fields = {field.name for field in dataclasses.fields(RunConfig)}
    settings = {key: value for key, value in first.config.items() if key in fields}
    # accumulation follows from the batch; a trace is read without the ledger's own work in it
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
    """On what these records were measured, in the form that all records have."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {"device": device(), "versions": versions, "date": date.today().isoformat(),
            "commit": made_by}  # fmt: skip


def write_records(said: dict[str, Any], found: dict[str, Any]) -> None:
    """Write what was measured into the lessons' rooms, and read it as they do."""
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
    recorded(name)  # says on what and when
    print(f"It is in {path}.")


def measure(settings: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Run the three parts, each in what is left of the time."""
    end = time.monotonic() + 60 * settings.minutes

    def left(keep: float = 0) -> float:
        return end - time.monotonic() - keep

    values = SMALL if settings.rehearse else FULL
    changes: dict[str, Any] = {"steps": 12, "untimed_steps": 6}
    if not settings.rehearse:
        batch = settings.trace_batch
        changes = {"compile": True, "global_batch": batch, "micro_batch": batch}
    data = {"data": settings.data} if settings.data else {}
    # the ladder may take half of the time: else there might be no table
    rungs = run_lesson("27", values["27"], out, left(30 * settings.minutes))
    runs = run_lesson("28", {**values["28"], **data}, out, left(FOR_THE_TRACE))
    traced = trace(runs[0], changes, out, left()) if runs and left() > 5 else None
    return {"ladder": ladder(rungs), "table": table(runs), "trace": traced}


def show(found: dict[str, Any]) -> None:
    """Print the figures, for whoever has only what was printed."""
    for row in found["ladder"]:
        print({key: row[key] for key in (*SETTINGS, "n", "images_per_second") if row[key]})
    for row in (*found["table"], *filter(None, [found["trace"]])):
        keys = ("model", "strategy", "precision", "compile", "global_batch", "micro_batch",
                "max_length", "n", "throughput", "memory_peak_bytes", "loss")  # fmt: skip
        print({key: row[key] for key in keys})


def main(words: Sequence[str] | None = None) -> int:
    """Refuse, measure, write the records and show them; 1 when one of the three is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_records"))
    parser.add_argument("--minutes", type=float, default=10, help="of all three parts together")
    parser.add_argument("--data", default="", help="a text that is here (default: lesson 28's)")
    parser.add_argument("--trace-batch", type=int, default=32, help="windows a step in the trace")
    parser.add_argument("--commit", default=commit(), help="of a copy that is no checkout")
    parser.add_argument("--rehearse", action="store_true", help="small, here, records in --out")
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
    """Refuse a machine without a GPU, and a copy that does not know its commit."""
    import torch

    if not (settings.rehearse or torch.cuda.is_available()):
        raise Unavailable(
            "torch finds no NVIDIA GPU here, and these records are a GPU's: start it where"
            " `dtlib doctor` finds one, or try it with --rehearse."
        )
    if not settings.commit:
        raise BadInput("this copy is no checkout: say by --commit what was measured.")


if __name__ == "__main__":
    sys.exit(main())
