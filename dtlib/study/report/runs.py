"""A run's page, from its folder: how it ended, settings and results, steps, devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.config.belonging import without_effect
from dtlib.errors import BadInput, counted
from dtlib.measure.profiling import read_samples
from dtlib.measure.profiling.monitor import Sample
from dtlib.study.report import profiles
from dtlib.study.report.content import Page, Section, facts, spelled
from dtlib.study.report.figures import Line, lines
from dtlib.training.record import Run

SETTINGS = (
    "task", "model", "strategy", "precision", "world_size", "global_batch", "micro_batch",
    "accumulation", "optimizer", "lr", "seed", "data", "loader", "workers", "compile",
    "compile_mode", "activation_checkpointing", "channels_last", "pad_vocab_to", "chunked_loss",
    "bucket_cap_mb",
    "compress_gradients", "zero_stage", "shard_ranks", "cpu_offload",
)  # fmt: skip
ORIGIN = ("device", "host", "nodes", "gpus_per_node", "job_id", "commit", "started", "ended")
# a column of the monitor's files → the caption, the unit and the divisor
DEVICE = {
    "gpu_util": ("Use of each GPU", "%", 0.01),
    "gpu_memory_bytes": ("Memory in use on each GPU", "GB (10⁹ bytes)", 1e9),
    "power_w": ("Power of each GPU", "W", 1.0),
    "sm_clock_mhz": ("Clock of each GPU", "MHz", 1.0),
    "temperature_c": ("Temperature of each GPU", "°C", 1.0),
    "cpu_util": ("Processor time of each rank", "% of a core", 0.01),
    "rss_bytes": ("Memory of each rank's process", "GB (10⁹ bytes)", 1e9),
}
LOG_LINES = 15


def page_of_run(folder: Path) -> Page:
    """Make a page from a run's folder."""
    run = Run.load(folder)
    page = Page(f"Run {folder.resolve().name}", ending(run))
    page.sections, page.missing = sections_of(run)
    return page


def ending(run: Run) -> str:
    """Return a sentence on how a run ended, as far as its files show."""
    count = len(run.history)
    steps = f"{counted(count, 'step')} {'is' if count == 1 else 'are'} recorded"
    if (run.folder / "requeue").exists():
        return f"stopped by a signal with a checkpoint, ready to be resumed; {steps}."
    if {"steps", "loss"} <= run.summary.keys():
        taken = run.summary["steps"]
        return f"done: {counted(taken, 'step')}, loss {run.loss:.6g}."
    if (run.folder / "summary.json").exists():
        return f"its summary.json has no number of steps or no loss; {steps}."
    return f"not done: there is no summary, so it failed, was killed, or is still running; {steps}."


def sections_of(run: Run, level: int = 2) -> tuple[list[Section], list[str]]:
    """Return the sections about a run, and the parts that are missing."""
    found: list[Section] = []
    missing: list[str] = []
    for name, part in PARTS.items():
        try:
            section = part(run, missing)
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # foreign records
            said = f"the records have an unexpected format ({type(error).__name__}: {error})"
            missing.append(f"{name}: {said}")
            continue
        if section is not None:
            section.level = level
            found.append(section)
    return found, missing


def _results(run: Run, missing: list[str]) -> Section:
    config = {name: run.config[name] for name in SETTINGS if run.config.get(name) is not None}
    defaults = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    unread = without_effect({**defaults, **run.config}, config)  # e.g. compile_mode
    settings = {name: value for name, value in config.items() if name not in unread}
    section = Section("Settings and results", tables=[facts("Settings", settings)])
    if not run.summary:
        missing.append("results (summary.json): the run is not done")
        return section
    summary = run.summary
    where = {name: summary.get(name) for name in ORIGIN}
    where["job_id"] = where["job_id"] or "no Slurm job"
    section.tables.append(facts("Where it ran", where))
    results = {
        "loss of the last step": f"{run.loss:.6g}",
        "restarts of the job": summary.get("restart_count"),
        "median step": _with("{:.4g} s", summary.get("step_time_s")),
        "throughput": _with("{:,.4g} " + summary["throughput_unit"], summary.get("throughput")),
        "timed": f"{counted(summary['timed_steps'], 'step')}, after {summary['warmup_steps']} of"
        " warm-up",
        "memory of rank 0 at its peak": _with("{:,} bytes", summary.get("memory_peak_bytes")),
        "mean use of the GPUs": _with("{:.1%}", summary.get("gpu_util")),
    }
    for name, value in (summary.get("evaluation") or {}).items():
        results[name] = f"{value:.4g}" if isinstance(value, float) else str(value)
    section.tables.append(facts("Results", results))
    return section


def _with(form: str, value: Any) -> str | None:
    return None if value is None else form.format(value)


def _steps(run: Run, missing: list[str]) -> Section | None:
    if not run.history:
        missing.append("steps (metrics.jsonl): none was recorded")
        return None
    section = Section("Steps")
    summary = run.summary
    per_step, unit = run.config.get("global_batch"), "samples/s"
    if summary.get("throughput"):
        per_step, unit = summary["throughput"] * summary["step_time_s"], summary["throughput_unit"]
    speed = {line["step"]: per_step / line["seconds"] for line in run.history
             if per_step and line["seconds"]}  # fmt: skip
    drawn = (
        ("Loss of each step", "loss", {line["step"]: line["loss"] for line in run.history}),
        ("Time of each step", "seconds", {line["step"]: line["seconds"] for line in run.history}),
        ("Throughput of each step", unit, speed),
    )
    section.figures = [
        lines(caption, "step", up, {"this run": list(values.items())}, from_zero=up != "loss")
        for caption, up, values in drawn
        if values
    ]
    if summary.get("warmup_steps"):
        section.sentences.append(
            f"The first {summary['warmup_steps']} steps after each start are warm-up or were"
            " instrumented: the median above leaves them out, and the figures show them."
        )
    return section


def _devices(run: Run, missing: list[str]) -> Section | None:
    files = list(run.folder.glob("monitor.rank*.csv"))
    samples: dict[str, list[Sample]] = {}
    for path in sorted(files, key=lambda path: (len(path.name), path.name)):  # rank 9 before 10
        try:
            some = list(read_samples(path))
        except BadInput as error:
            missing.append(str(error))
            continue
        if some:
            samples[path.stem.replace("monitor.rank", "rank ")] = some
        else:
            missing.append(f"samples in {path}: there are none yet")
    if not files:
        missing.append("use, memory, power and clocks of the devices: train with --monitor")
    if not samples:
        return None
    first = min(some[0]["time"] or 0.0 for some in samples.values())
    last = max(some[-1]["time"] or 0.0 for some in samples.values())
    said = f"Sampled over {spelled(last - first)}, while the run took its steps."
    drawn = {field: _over_time(samples, field, first) for field in DEVICE}
    if not drawn["gpu_util"]:
        missing.append("figures of a GPU: the monitor recorded none")
    figures = [
        lines(DEVICE[field][0], "seconds since the first sample", DEVICE[field][1], series)
        for field, series in drawn.items()
        if series
    ]
    return Section("Devices", [said], figures=figures)


def _over_time(samples: dict[str, list[Sample]], field: str, first: float) -> dict[str, Line]:
    divisor = DEVICE[field][2]
    found: dict[str, Line] = {}
    for name, some in samples.items():
        points = [(one["time"], one[field]) for one in some]
        line = [(x - first, y / divisor) for x, y in points if x is not None and y is not None]
        if line:
            found[name] = line
    return found


def _log(run: Run, missing: list[str]) -> Section | None:
    """Return the last lines of rank 0's log, if the run has no summary."""
    path = run.folder / "rank0.log"
    if run.summary or not path.exists():
        return None
    return end_of(path, "rank 0's log")


def end_of(log: Path, name: str) -> Section:
    """Return the last lines of a log."""
    last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    return Section(f"The end of {name}", text="\n".join(last))


PARTS: dict[str, Callable[[Run, list[str]], Section | None]] = {
    "settings and results": _results,
    "steps": _steps,
    "shares of a step": profiles.shares,
    "exports of Nsight Systems": profiles.systems,
    "pages of Nsight Compute": profiles.compute,
    "devices": _devices,
    "log": _log,
}
"""A part of the page → the function that makes it and notes what is missing."""
