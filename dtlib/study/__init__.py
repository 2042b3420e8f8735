"""`dtlib study strategies|strong|weak`: families of runs, and one tidy table of each.

A study is a list of runs (`family`), carried out once each in one folder; an interrupted one goes
on where it stopped. From the runs come rows (`rows`), from the rows CSV files, tables and figures
(`reading`). What is compared with the formulas, and how differences are named: `differences`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.config import RunConfig
from dtlib.errors import BadInput, DtlibError, Unavailable
from dtlib.flags import Parser, add_settings, hyphens

if TYPE_CHECKING:
    from dtlib.study.family import Outcome

OWN = {"strategy", "ranks", "out", "resume", "ledger"}  # what the study says itself
RANKS, REPEATS = "1,2,4", 3
CSV, DIFFERENCES_CSV = "strategies.csv", "differences.csv"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and carry out; returns the exit code, raises `DtlibError` for what cannot be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = vars(parser().parse_args([hyphens(word) for word in words]))
    kind = args.pop("command")
    if kind == "figure":
        return draw(Path(args["study"]))
    ranks = _numbers(args.pop("ranks"))
    task = args.setdefault("task", "text")
    out = Path(args.pop("out") or Path("studies") / f"{kind}-{task}")
    if kind == "strategies":
        return study_strategies(args, ranks, _words(args.pop("strategies")), out)
    return study_scaling(kind, args, ranks, args.pop("repeats"), out)


def parser() -> Parser:
    """The command line of `dtlib study`."""
    top = Parser(prog="dtlib study", description="Families of runs, and one tidy table of each.")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="strategies|strong|weak|figure"
    )
    study = _command(
        commands, "strategies", "the same model under every strategy, predicted beside measured",
        "The same model under every strategy: losses, bytes held and sent, beside what the formulas"
        " say. Started again, it goes on where it stopped.", OWN,
    )  # fmt: skip
    study.add_argument(
        "--strategies", metavar="A,B,…", default="", help="names of strategies (default: all)"
    )
    for kind, kept in (("strong", "global batch"), ("weak", "batch of a rank")):
        study = _command(
            commands, kind, f"the same model on more and more ranks, with the same {kept}",
            f"The same model on more and more ranks, with the same {kept}: step time, speed-up and"
            " efficiency, with their spread over repeats. One rank is always run, as `single`."
            " Started again, it goes on where it stopped.", OWN - {"strategy"},
        )  # fmt: skip
        study.add_argument(
            "--repeats", type=int, metavar="n", default=REPEATS,
            help=f"how often each is run (default: {REPEATS})",
        )  # fmt: skip
    drawing = commands.add_parser("figure", help="the figure again, from a study's CSV file")
    drawing.add_argument("study", metavar="DIR|CSV", help="a study's folder, or its CSV file")
    return top


def _command(commands: Any, kind: str, note: str, about: str, own: set[str]) -> Parser:
    """Add a study's parser, with the settings of its runs but those that the study says itself."""
    study: Parser = commands.add_parser(
        kind,
        help=note,
        usage=f"dtlib study {kind} [text|images] [--ranks {RANKS}] [--out DIR] [--SETTING VALUE …]",
        description=about,
        argument_default=argparse.SUPPRESS,
    )
    study.add_argument(
        "--ranks", metavar="A,B,…", default=RANKS, help=f"numbers of ranks (default: {RANKS})"
    )
    study.add_argument(
        "--out", metavar="DIR", default=None, help="the study's folder (default: studies/…)"
    )
    add_settings(study, {field.name for field in dataclasses.fields(RunConfig)} - own)
    return study


def study_strategies(
    settings: dict[str, Any], ranks: Sequence[int], wanted: Sequence[str], out: Path
) -> int:
    """Run the study, print its tables, and write its CSV files and its figure.

    Parameters
    ----------
    settings
        Those of `RunConfig` that all runs share.
    ranks, wanted
        Numbers of ranks and names of strategies (none: all).
    out
        Its folder.

    Returns
    -------
    int
        0.

    Raises
    ------
    BadInput, Unavailable
        For settings that no run can have, a folder that holds a study of other settings, or a
        machine that can carry out none of the runs.
    DtlibError
        When runs failed; the tables and figures of the others are written before.
    Stopped
        When a signal stopped a run; the same call goes on.
    """
    from dtlib.study import family, reading, rows, strategies

    planned = list(strategies.plans(settings, ranks, wanted))
    family.open_folder(out, strategies.KIND, settings)
    outcomes = []
    for outcome in family.carry_out(out, planned):
        outcomes.append(outcome)
        loss = f"loss {outcome.run.loss:.6f}" if outcome.run else outcome.because
        print(f"{outcome.planned.name}: {outcome.status}, {loss}", flush=True)
    _refuse_if_nothing_ran(outcomes)
    table, named = rows.tidy(outcomes, strategies.KIND), rows.differences(outcomes)
    columns = [*rows.COLUMNS, *rows.LEDGER]
    rows.write(out / CSV, columns, table)
    rows.write(out / DIFFERENCES_CSV, rows.DIFFERENCES, named)
    print("", reading.table(table), "", reading.comparison(named), "", sep="\n")
    draw(out)
    failed = [outcome.planned.name for outcome in outcomes if outcome.status == "failed"]
    if failed:
        raise DtlibError(
            f"{len(failed)} runs failed: {', '.join(failed)}; their sentences are above."
        )
    return 0


def study_scaling(
    kind: str, settings: dict[str, Any], ranks: Sequence[int], repeats: int, out: Path
) -> int:
    """Run a study of strong or weak scaling, print its table, write its CSV files and figure.

    Parameters
    ----------
    kind
        "strong" or "weak".
    settings, ranks, out
        As for `study_strategies`.
    repeats
        How often each number of ranks is run.

    Returns, Raises
    ---------------
    As `study_strategies`; DtlibError also when no run on one rank was done.
    """
    from dtlib.study import family, rows, scaling

    planned = list(scaling.plans(kind, settings, ranks, repeats))
    family.open_folder(out, kind, settings)
    outcomes = []
    for outcome in family.carry_out(out, planned):
        outcomes.append(outcome)
        seconds = outcome.run.summary["step_time_s"] if outcome.run else None
        said = f"{1e3 * seconds:.1f} ms a step" if seconds else outcome.because
        print(f"{outcome.planned.name}: {outcome.status}, {said}", flush=True)
    _refuse_if_nothing_ran(outcomes)
    rows.write(out / f"{kind}.csv", rows.COLUMNS, scaling.tidy(outcomes, kind))
    failed = [outcome.planned.name for outcome in outcomes if outcome.status != "done"]
    if failed:
        raise DtlibError(
            f"{len(failed)} runs are not done: {', '.join(failed)}; their sentences are above."
        )
    return draw(out)


def _refuse_if_nothing_ran(outcomes: Sequence[Outcome]) -> None:
    """Raise what all runs say when none could even start: it is the settings, or the machine."""
    errors = {"refused": BadInput, "unavailable": Unavailable}
    statuses = {outcome.status for outcome in outcomes}
    if len(statuses) == 1 and statuses <= errors.keys():
        raise errors[statuses.pop()](outcomes[0].because)


def draw(place: Path) -> int:
    """Draw a study's figure from its CSV file, into the same folder."""
    from dtlib.study import reading, rows, scaling, scaling_view

    names = (CSV, *(f"{kind}.csv" for kind in scaling.KINDS))
    inside = [place / name for name in names if (place / name).exists()]
    path = inside[0] if inside else place
    figure = path.with_suffix(".png")
    if path.name == CSV or path.stem not in scaling.KINDS:
        reading.save_figure(rows.read(path), figure)
    else:
        found = scaling.efficiency(scaling.read(path))
        rows.write(path.with_name("efficiency.csv"), scaling.EFFICIENCY, found)
        scaling_view.save(found, figure, os.cpu_count())
        print("", figure.with_suffix(".txt").read_text(encoding="utf-8"), sep="\n")
    print(f"{path}, {figure} and the same as text beside it")
    return 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    numbers = [int(word) if word.isdecimal() else 0 for word in _words(text)]
    if not numbers or min(numbers) < 1:
        raise BadInput(f"--ranks {text!r} must be whole numbers from 1 on, such as {RANKS}.")
    return numbers
