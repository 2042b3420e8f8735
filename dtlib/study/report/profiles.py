"""Profilers' results in a run's folder: torch.profiler's shares, exports of nsys and ncu."""

from __future__ import annotations

from dtlib.errors import BadInput
from dtlib.measure.profiling import Shares, ncu, nsys, tables
from dtlib.study.report.content import Section, Table
from dtlib.training.record import Run


def shares(run: Run, missing: list[str]) -> Section | None:
    """Return every rank's shares and the verdict, from the summary."""
    profile = run.summary.get("profile")
    if not profile:
        missing.append("shares of a step, and a verdict: train with --profile")
        return None
    rows = tables.of_ranks([Shares(**one) for one in profile["shares"]])
    table = _table("Shares of the profiled steps", rows)
    return Section("What bounds it", [f"Verdict: {profile['verdict']}"], [table])


def systems(run: Run, missing: list[str]) -> Section | None:
    """Return tables of the Nsight Systems exports in the run's folder, if there are any."""
    section = Section("Nsight Systems")
    for path in sorted(run.folder.glob("*.sqlite")):
        try:
            export = nsys.read(path)
        except BadInput as error:
            missing.append(str(error))
            continue
        if export.unknown:
            missing.append(f"{path.name}: tables {nsys.not_read(export.unknown)}")
        section.tables.append(_table(f"{path.name}: shares of the time", tables.of_gpus(export)))
        for what, rows in (("ranges", tables.of_ranges(export)),
                           ("kernels", tables.of_kernels(export))):  # fmt: skip
            if len(rows) > 1:
                named = [[row[-1], *row[:-1]] for row in rows]
                section.tables.append(_table(f"{path.name}: the longest {what}", named))
    section.sentences = ["Kinds may overlap; NCCL is exposed while no other kernel runs."]
    return section if section.tables else None


def compute(run: Run, missing: list[str]) -> Section | None:
    """Return tables of the Nsight Compute pages in the run's folder, if there are any."""
    section = Section("Nsight Compute")
    for path in sorted(run.folder.glob("ncu*.csv")):
        try:
            reached = ncu.read(path)
        except BadInput as error:
            missing.append(str(error))
            continue
        rows = [[row[-1], *row[:-1]] for row in tables.of_reached(reached)]
        section.sentences.append(f"{path.name}: {tables.peaks_of(reached)}")
        section.tables.append(_table(f"{path.name}: what the longest kernels reached", rows))
    return section if section.tables else None


def _table(caption: str, rows: tables.Rows) -> Table:
    return Table(caption, rows[0], rows[1:])
