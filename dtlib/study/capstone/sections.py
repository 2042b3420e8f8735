"""Sections of results: text and tables from the records alone, none of them the student's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dtlib.study import scaling
from dtlib.study.capstone import charts, review
from dtlib.study.capstone.evidence import Evidence

Content = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

MEANS = {
    "strong": "The global batch stays the same, so each of N ranks has an Nth of the work.",
    "weak": "The batch of each rank stays the same, so N ranks do N times the work.",
}
HEAD = ["ranks", "global batch", "repeats", "ms/step", "smallest", "largest", "efficiency",
        "smallest", "largest"]  # fmt: skip


def curves(evidence: Evidence) -> dict[str, Rows]:
    """Return the rows of the scaling studies by kind."""
    return {kind: evidence.studies[kind] for kind in scaling.KINDS if kind in evidence.studies}


def results(evidence: Evidence) -> list[str]:
    """Return the sentence of each curve."""
    return [result(kind, rows) for kind, rows in curves(evidence).items()]


def result(kind: str, rows: Rows) -> str:
    """State a curve's end in a sentence: the median efficiency, its range, and the repeats."""
    last = scaling.efficiency(rows)[-1]
    return (
        f"{kind.capitalize()} scaling on {last['world_size']} ranks has an efficiency of"
        f" {last['efficiency']:.2f} (median of {last['repeats']} repeats, from"
        f" {last['efficiency_min']:.2f} to {last['efficiency_max']:.2f})."
    )


def method(evidence: Evidence) -> list[str]:
    """Say how the runs were made; studies that were made alike share a paragraph."""
    alike: dict[str, list[str]] = {}
    for kind, rows in curves(evidence).items():
        each = scaling.efficiency(rows)
        alike.setdefault(
            f"measured on {_listed(row['world_size'] for row in each)} ranks, in"
            f" {each[0]['repeats']} repeats. A repeat is a turn over all numbers of ranks, so that"
            " whatever else the machine did affects all of them alike. Of each run the first"
            f" {rows[0]['warmup_steps']} steps are left out; the time of a step is the median of"
            f" the other {rows[0]['timed_steps']}.",
            [],
        ).append(kind)
    found = [
        f"{' and '.join(kinds).capitalize()} scaling {'was' if len(kinds) == 1 else 'were'} {said}"
        for said, kinds in alike.items()
    ]
    return [
        *found,
        "T(N) is the time of a step on N ranks, and T(1) that of one process without any"
        " communication. In strong scaling the global batch stays the same, and the efficiency is"
        " T(1) / (N · T(N)). In weak scaling the batch of each rank stays the same, and the"
        " efficiency is T(1) / T(N). Both are 1 if nothing is lost.",
        "Each repeat on N ranks is compared with the run on one rank of the same turn. Tables give"
        " the median of these efficiencies, the smallest and the largest.",
    ]


def _listed(numbers: Iterable[Any]) -> str:
    return review.listed([*numbers])


def settings(evidence: Evidence) -> list[list[str]]:
    """Return machine, versions, model, data and settings, all from the records."""
    rows = [row for some in curves(evidence).values() for row in some]

    def of_rows(name: str) -> str:
        return ", ".join(sorted({str(row[name]) for row in rows if row[name] is not None}))

    def of_runs(name: str) -> str:
        found = {str(one[name]) for one in evidence.settings.values() if name in one}
        return ", ".join(sorted(found))

    parameters = of_runs("parameters")
    lines = {
        "machine": evidence.machine,
        "host": of_rows("host"),
        "device": of_rows("device"),
        "versions": ", ".join(f"{name} {number}" for name, number in evidence.versions.items()),
        "commit": ", ".join(word[:12] for word in of_rows("commit").split(", ")),
        "task, model": f"{of_rows('task')}, {of_rows('model')}"
        + (f", {int(parameters):,} parameters" if parameters.isdecimal() else ""),
        "data": ", ".join(
            f"{what} {of_runs(name)}".strip()
            for name, what in (("data", ""), ("num_samples", "samples"), ("max_length", "window"))
            if of_runs(name)
        ),
        "precision": of_rows("precision"),
        "optimizer": of_runs("optimizer"),
        "learning rate": of_runs("lr"),
        "strategies": of_rows("strategy"),
        "threads of a rank": of_runs("threads"),
        "seed": of_rows("seed"),
        "Slurm jobs": of_rows("job_id"),
    }
    if not evidence.versions:
        lines["versions"] = "not recorded: the folders of the runs are not there"
    return [[name, value] for name, value in lines.items() if value.strip(", ")]


def curve(evidence: Evidence, kind: str) -> Content:
    """Return a curve's section: what it means, its table, its sentence; or what is missing."""
    rows = evidence.studies.get(kind)
    if not rows:
        why = f"No {kind} scaling was measured; `dtlib study {kind} text --ranks 1,2` does it."
        return {"kind": kind, "missing": why}
    each = scaling.efficiency(rows)
    last = each[-1]
    return {
        "kind": kind,
        "missing": "",
        "means": MEANS[kind],
        "figure": f"{kind}.svg",
        "alt": f"Time of a step and efficiency over ranks, {kind} scaling, with each repeat. "
        + result(kind, rows),
        "caption": f"{kind.capitalize()} scaling on {_listed(row['world_size'] for row in each)}"
        " ranks: each repeat (dots), medians (squares) and the whole spread (bars).",
        "table": {"head": HEAD, "rows": [_line(row) for row in each]},
        "says": result(kind, rows) + _times(last, kind),
    }


def _line(row: Mapping[str, Any]) -> list[str]:
    seconds = [row["step_time_s"], row["step_time_s_min"], row["step_time_s_max"]]
    values = [row["efficiency"], row["efficiency_min"], row["efficiency_max"]]
    return [
        str(row["world_size"]), str(row["global_batch"]), str(row["repeats"]),
        *(f"{1e3 * value:.1f}" for value in seconds), *(f"{value:.2f}" for value in values),
    ]  # fmt: skip


def _times(row: Mapping[str, Any], kind: str) -> str:
    n, value = row["world_size"], row["efficiency"]
    done = "the same work is done" if kind == "strong" else "is done in the same time"
    if kind == "strong":
        said = f" So {done} {n} · {value:.2f} = {n * value:.2f} times as fast as on one rank."
    else:
        said = f" So {n} · {value:.2f} = {n * value:.2f} times the work {done}."
    if row["efficiency_min"] <= 1 <= row["efficiency_max"]:
        said += " The repeats lie on both sides of 1: the loss is within their spread."
    return said


def shares(evidence: Evidence) -> Content:
    """Return where the time of a step goes, or what is missing."""
    if not evidence.shares:
        return {"missing": "No run was profiled; a study without --no-profile records it."}
    kinds = list(dict.fromkeys(row["study"] for row in evidence.shares))
    n = evidence.shares[0]["world_size"]
    rows, says = [], []
    for kind in kinds:
        middle = charts.middle_repeat(evidence.shares, kind)
        runs = [row for row in evidence.shares if row["study"] == kind]
        rows.append([f"{kind} scaling", str(len(runs)), *(f"{100 * v:.0f} %" for v in
                     middle.values())])  # fmt: skip
        low, high = (f(row["communication"] for row in runs) for f in (min, max))
        says.append(
            f"In {kind} scaling {100 * middle['communication']:.0f}\u00a0% of a step is"
            f" communication that nothing hides (from {100 * low:.0f} to {100 * high:.0f}\u00a0%)."
        )
    return {
        "missing": "",
        "figure": "shares.svg",
        "alt": "Shares of a step by study. " + " ".join(says),
        "caption": f"Where the time of a step goes on {n} ranks: means over the ranks, in the"
        " middle repeat.",
        "table": {"head": ["study", "repeats", *middle], "rows": rows},
        "says": " ".join(says) + " Communication includes waiting for the slowest rank.",
    }


def known_limits(evidence: Evidence) -> list[str]:
    """Return the limits that the records themselves show."""
    found = []
    for kind, rows in curves(evidence).items():
        each = scaling.efficiency(rows)
        last, nodes = each[-1], max(row["nodes"] or 1 for row in rows)
        found.append(
            f"{kind.capitalize()} scaling was measured on at most {last['world_size']} ranks, on"
            f" {nodes} node{'s' * (nodes > 1)}. Nothing here says what happens on more."
        )
        alone = [row["step_time_s"] for row in rows if row["world_size"] == 1]
        found.append(
            f"The times on one rank of the {kind} study spread by"
            f" {max(alone) / min(alone):.2f} times over {len(alone)} repeats, by noise alone."
        )
    if {row["device"] for rows in curves(evidence).values() for row in rows} == {"cpu"}:
        found.append("All ranks computed on the CPU of one machine and shared its memory; GPUs have"
                     " other shares of computation and communication.")  # fmt: skip
    middle = [row["mfu"] for rows in curves(evidence).values() for row in rows]
    if not any(middle):
        found.append("No MFU was recorded: how near the device was to its peak is not known.")
    return found


def terms() -> list[list[str]]:
    """Return the words that a reader from elsewhere needs."""
    return [
        ["rank", "a process that computes, one for each GPU or core"],
        ["step", "one update of the weights, with a global batch of samples from all ranks"],
        ["single", "one rank that sends nothing; the baseline of every efficiency"],
        ["ddp", "data parallel: each rank has a part of the batch, and all add up their gradients"],
        [
            "communication",
            "the part of a step in which a rank sends or waits for others",
        ],
        ["range", "the smallest and the largest of the repeats"],
        ["measured", "by the author's own runs; recorded elsewhere, or simulated by a formula"],
    ]


def all_runs(evidence: Evidence) -> Content:
    """Return every run of the scaling studies."""
    lines = [
        [kind, str(row["world_size"]), str(row["repeat"]), str(row["strategy"]),
         str(row["global_batch"]), f"{1e3 * row['step_time_s']:.2f}",
         "" if row["throughput"] is None else f"{row['throughput']:,.0f}",
         "" if row["loss"] is None else f"{row['loss']:.4f}"]
        for kind, rows in curves(evidence).items() for row in rows
    ]  # fmt: skip
    units = [row["throughput_unit"] for rows in curves(evidence).values() for row in rows]
    head = ["study", "ranks", "repeat", "strategy", "batch", "ms/step", units[0] or "throughput"]
    return {"head": [*head, "loss"], "rows": lines}
