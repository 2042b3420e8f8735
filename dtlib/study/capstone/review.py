"""Check results as a reviewer would: the usual errors of scaling studies, each in a sentence.

Every function returns `Fault`s; an empty list means that nothing is wrong. A sentence has the
student's own numbers and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]
Rows = Sequence[Row]
SAME = ("task", "model", "precision", "device")
"""What must not change within a curve, so that the number of ranks alone makes the difference."""

SOURCES = ("measured", "recorded", "simulated", "computed")
"""How the source of a row of `my_runs.csv` may begin."""


class Fault(NamedTuple):
    """An error: a short key, and the sentence for the student."""

    key: str
    sentence: str


def of_curve(kind: str, rows: Rows) -> list[Fault]:
    """Check the runs of one curve.

    Parameters
    ----------
    kind
        "strong" or "weak": what the curve is said to be.
    rows
        As `dtlib.study.tables.read` returns them, one for each run.
    """
    found = list(_untrue(kind, rows))
    if not found:
        found = [*_mixed(kind, rows), *_baseline(kind, rows), *_repeats(kind, rows)]
    return found


def _untrue(kind: str, rows: Rows) -> Iterator[Fault]:
    """Yield what makes rows no measurement of this curve at all."""
    if not rows:
        yield Fault("empty", f"Your {kind} table has no run; start the same study again.")
    simulated = [row for row in rows if row["measured_or_simulated"] != "measured"]
    if simulated:
        source = simulated[0]["measured_or_simulated"] or "of unknown origin"
        yield Fault(
            "not_measured",
            f"{_place(kind, simulated)} {source}, and a paper's curve is measured: take that out of"
            " the table, or run it.",
        )
    untimed = [row for row in rows if not row["step_time_s"]]
    if untimed:
        yield Fault(
            "untimed",
            f"{_place(kind, untimed)} without a timed step: give the study more --steps, and run it"
            " again.",
        )
    fast = [row for row in rows if row["mfu"] is not None and not 0 <= row["mfu"] <= 1]
    if fast:
        yield Fault(
            "mfu",
            f"{_place(kind, fast)} said to have an MFU of {fast[0]['mfu']:.2f}, and no device"
            " computes faster than its peak: check the peak (dense, of this precision), the FLOP of"
            " a step, and whether all GPUs are counted.",
        )


def _place(kind: str, rows: Rows) -> str:
    """Say which runs are meant, up to the verb."""
    first = f"epeat {rows[0]['repeat']} on {rows[0]['world_size']} ranks"
    if len(rows) == 1:
        return f"R{first} of your {kind} study is"
    return f"{len(rows)} runs of your {kind} study (r{first} is the first) are"


def _mixed(kind: str, rows: Rows) -> Iterator[Fault]:
    """Yield what varies in a curve besides the number of ranks, and ranks that share a GPU.

    A table counts nodes and, of each node, the ranks that found a GPU; it does not say which GPU a
    rank had. So ranks that share one are seen only if a table has more ranks than GPUs. The ranks
    of `dtlib` itself never share one: each has its own, or all compute on the CPU.
    """
    sizes = {row["world_size"]: row["global_batch"] for row in rows}
    low, high = min(sizes), max(sizes)
    other = "weak" if kind == "strong" else "strong"
    said = {row["study"] for row in rows} - {kind}
    batches = {row["global_batch"] / (row["world_size"] if kind == "weak" else 1) for row in rows}
    if said or len(batches) > 1:
        yield Fault(
            "mixed",
            f"Your {kind} curve has a global batch of {sizes[low]} on {low} rank{'s' * (low > 1)}"
            f" and of {sizes[high]} on {high}"
            + (f", and rows of a {'/'.join(sorted(map(str, said)))} study" if said else "")
            + f": {_batches(kind)}; move the runs of {other} scaling to a curve of their own.",
        )
    for name in SAME:
        values = sorted({str(row[name]) for row in rows})
        if len(values) > 1:
            yield Fault(
                "devices" if name == "device" else "confounded",
                f"Your {kind} curve has runs with {name} {' and with '.join(values)}: only the"
                " number of ranks may vary in a curve; make a curve of each.",
            )
    for row in rows:
        gpus = (row["nodes"] or 0) * (row["gpus_per_node"] or 0)
        if 0 < gpus < row["world_size"]:  # there may be more: the last node may run fewer ranks
            yield Fault(
                "gpus_and_ranks",
                f"A run of your {kind} study has {row['world_size']} ranks and, by its nodes and"
                f" gpus_per_node, {gpus} GPU{'s' * (gpus > 1)}, so some ranks share one: use one"
                " rank for each GPU.",
            )
            break


def _batches(kind: str) -> str:
    if kind == "strong":
        return "strong scaling keeps the global batch"
    return "weak scaling keeps the batch of each rank"


def _baseline(kind: str, rows: Rows) -> Iterator[Fault]:
    """Yield what is wrong with the runs on one rank."""
    counts = sorted({row["world_size"] for row in rows})
    if counts[0] != 1:
        yield Fault(
            "no_baseline",
            f"Your {kind} study has runs on {listed(counts)} ranks and none on 1, and an"
            " efficiency is relative to one rank: add 1 to --ranks.",
        )
        return
    first = sorted({str(row["strategy"]) for row in rows if row["world_size"] == 1} - {"single"})
    if first:
        yield Fault(
            "wrong_baseline",
            f"The run on 1 rank of your {kind} study uses the strategy {first[0]}, which"
            " communicates or copies although it is alone, and makes the efficiency look better:"
            " take `single`, as `dtlib study` does.",
        )
    if counts[-1] == 1:
        yield Fault(
            "no_curve",
            f"Your {kind} study has runs on 1 rank only: give it more, such as --ranks 1,2.",
        )
    alone = {row["repeat"] for row in rows if row["world_size"] == 1}
    for n in counts[1:]:
        without = {row["repeat"] for row in rows if row["world_size"] == n} - alone
        if without:
            yield Fault(
                "unpaired",
                f"Repeat {listed(sorted(without))} on {n} ranks of your {kind} study has no run"
                " on 1 rank in its turn: start the same study again, which does what is missing.",
            )


def _repeats(kind: str, rows: Rows) -> Iterator[Fault]:
    counts = sorted({row["world_size"] for row in rows})
    lone = [n for n in counts if len({r["repeat"] for r in rows if r["world_size"] == n}) < 2]
    if lone:
        yield Fault(
            "one_repeat",
            f"On {listed(lone)} rank{'s' * (lone != [1])} your {kind} study has a single repeat,"
            " which has no spread: start it with --repeats 3 or more.",
        )


def of_kept(rows: Rows) -> list[Fault]:
    """Check rows of `my_runs.csv`: where each number comes from, and whether it can be true."""
    found = []
    for row in rows:
        where = f"“{row['what']}” (lesson {row['lesson'] or '?'}) in my_runs.csv"
        value, source = number(row["measured"]), str(row["source"] or "")
        if not source.startswith(SOURCES):
            found.append(Fault(
                "no_source",
                f"{where} is {row['measured'] or 'empty'} with the source “{source}”: write"
                f" {', '.join(SOURCES[:-1])} or {SOURCES[-1]} there, or leave the row out.",
            ))  # fmt: skip
        if "MFU" in str(row["what"]) and value is not None:
            share = value / 100 if row["unit"] == "%" else value
            if not 0 <= share <= 1:
                found.append(Fault(
                    "mfu",
                    f"{where} is {row['measured']} {row['unit']}".rstrip() + ", and no device"
                    " computes faster than its peak: check the peak and the FLOP of a step.",
                ))  # fmt: skip
    return found


def number(value: Any) -> float | None:
    """Return a cell as a number; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def listed(numbers: Sequence[Any]) -> str:
    """Return numbers in words: 1, 2 and 4."""
    words = [str(number) for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
