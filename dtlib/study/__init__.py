"""`dtlib study strategies`: families of runs, and one tidy table of each.

A study is a list of runs (`family`), carried out once each in one folder; an interrupted one goes
on where it stopped. From the runs come rows (`rows`), from the rows CSV files, tables and figures
(`reading`). What is compared with the formulas, and how differences are named: `differences`.
"""

from __future__ import annotations

import argparse
import dataclasses
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
RANKS = "1,2,4"
CSV, DIFFERENCES_CSV, FIGURE = "strategies.csv", "differences.csv", "strategies.png"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and carry out; returns the exit code, raises `DtlibError` for what cannot be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = vars(parser().parse_args([hyphens(word) for word in words]))
    if args.pop("command") == "figure":
        return draw(Path(args["study"]))
    ranks, wanted = _numbers(args.pop("ranks")), _words(args.pop("strategies"))
    task = args.setdefault("task", "text")
    out = Path(args.pop("out") or Path("studies") / f"strategies-{task}")
    return study_strategies(args, ranks, wanted, out)


def parser() -> Parser:
    """The command line of `dtlib study`."""
    top = Parser(prog="dtlib study", description="Families of runs, and one tidy table of each.")
    commands = top.add_subparsers(dest="command", required=True, metavar="strategies|figure")
    study = commands.add_parser(
        "strategies",
        help="the same model under every strategy, predicted beside measured",
        usage="dtlib study strategies [text|images] [--ranks 1,2,4] [--strategies A,B] [--out DIR]"
        " [--SETTING VALUE …]",
        description="The same model under every strategy: losses, bytes held and sent, beside what"
        " the formulas say. Started again, it goes on where it stopped.",
        argument_default=argparse.SUPPRESS,
    )
    lists = {"ranks": f"numbers of ranks (default: {RANKS})", "strategies": "names (default: all)"}
    for name, note in lists.items():
        default = RANKS if name == "ranks" else ""
        study.add_argument(f"--{name}", metavar="A,B,…", default=default, help=note)
    study.add_argument(
        "--out", metavar="DIR", default=None, help="the study's folder (default: studies/…)"
    )
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    add_settings(study, fields - OWN)
    drawing = commands.add_parser("figure", help="the figure again, from a study's CSV file")
    drawing.add_argument("study", metavar="DIR|CSV", help="a study's folder, or its CSV file")
    return top


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
        0, or 1 when a run failed.

    Raises
    ------
    BadInput, Unavailable
        For settings that no run can have, a folder that holds a study of other settings, or a
        machine that can carry out none of the runs.
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


def _refuse_if_nothing_ran(outcomes: Sequence[Outcome]) -> None:
    """Raise what all runs say when none could even start: it is the settings, or the machine."""
    errors = {"refused": BadInput, "unavailable": Unavailable}
    statuses = {outcome.status for outcome in outcomes}
    if len(statuses) == 1 and statuses <= errors.keys():
        raise errors[statuses.pop()](outcomes[0].because)


def draw(place: Path) -> int:
    """Draw a study's figure from its CSV file, into the same folder."""
    from dtlib.study import reading, rows

    path = place / CSV if place.is_dir() else place
    reading.save_figure(rows.read(path), path.parent / FIGURE)
    print(f"{path}, {path.parent / FIGURE} and the same as text beside it")
    return 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    numbers = [int(word) if word.isdecimal() else 0 for word in _words(text)]
    if not numbers or min(numbers) < 1:
        raise BadInput(f"--ranks {text!r} must be whole numbers from 1 on, such as {RANKS}.")
    return numbers
