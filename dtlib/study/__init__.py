"""`dtlib study strategies|strong|weak|sensitivity`: families of runs, one tidy table for each.

A study is a list of runs (`family`), each of them done once, all in one folder (`running`); an
interrupted study continues where it stopped, and several processes can each do a part. The runs
give rows (`rows`, `tables`); the rows give CSV files, tables, figures (`drawing`) and a judgement
of the targets (`targets`). `differences` explains where measurements deviate from the formulas.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtlib.config.flags import Parser, add_json, add_settings, hyphens
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput, counted
from dtlib.strategies import names as strategy_names

# Settings that the study sets itself, or that its runs cannot share.
OWN = {"strategy", "mesh", "ranks", "out", "resume", "ledger", "checkpoints"}
RANKS, REPEATS = "1,2,4", 3


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run a command; return the exit code, or raise `DtlibError` if it can't be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = vars(parser().parse_args([hyphens(word) for word in words]))
    from dtlib.study import running

    kind = args.pop("command")
    if kind == "figure":
        return running.show(Path(args["study"]))
    task = args.setdefault("task", "text")
    out = Path(args.pop("out") or Path("studies") / f"{kind}-{task}")
    if kind == "strategies":
        ranks = _numbers(args.pop("ranks"))
        return running.study_strategies(args, ranks, _words(args.pop("strategies")), out)
    part, parts = _part(args.pop("part")), args.pop("parts")
    as_json = args.pop("json")
    planned, settings = _planned(kind, args)
    if as_json and not parts:
        raise BadInput("--json goes with --parts, the list of runs; add --parts, or omit --json.")
    if as_json:
        print(to_json([{"part": number, "name": one.name} for number, one in enumerate(planned)]))
        return 0
    if parts:
        print(f"{counted(len(planned), 'run')}: --part 0 to --part {len(planned) - 1}")
        print("\n".join(f"{number} {one.name}" for number, one in enumerate(planned)))
        return 0
    return running.study_timed(kind, settings, planned, out, part)


def _planned(kind: str, args: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the runs of a timed study, and the settings that all of its calls must share."""
    from dtlib.study import scaling, sensitivity

    repeats = args.pop("repeats")
    if kind != sensitivity.KIND:
        ranks = _numbers(args.pop("ranks"))
        return list(scaling.plans(kind, args, ranks, repeats)), args
    lists = {key: _words(value) for key, value in args.items() if "," in str(value)}
    axes = {key: lists[key] for key in (*sensitivity.AXES, *lists) if key in lists}
    shared = {key: value for key, value in args.items() if key not in axes}
    return list(sensitivity.plans(shared, axes, repeats)), {**shared, **axes}


def parser() -> Parser:
    """The command line of `dtlib study`."""
    top = Parser(prog="dtlib study", description="Families of runs, and one tidy table for each.")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="strategies|strong|weak|sensitivity|figure"
    )
    study = _command(
        commands, "strategies", "the same model under every strategy, predicted and measured",
        "The same model under every strategy: losses, bytes held and bytes sent, next to what the"
        " formulas predict. If you start it again, it continues where it stopped.", OWN,
    )  # fmt: skip
    study.add_argument(
        "--strategies", metavar="A,B,…", default="", help="names of strategies (default: all)"
    )
    for kind, kept in (("strong", "global batch"), ("weak", "batch of a rank")):
        _timed(
            commands, kind, f"the same model on more and more ranks, with the same {kept}",
            f"The same model on more and more ranks, with the same {kept}: step time, speed-up and"
            " efficiency, with their spread over repeats. It always includes one rank, as"
            " `single`. If you start it again, it continues where it stopped.", OWN - {"strategy"},
        )  # fmt: skip
    _timed(
        commands, "sensitivity", "every combination of a few settings, and what each gains",
        "Every combination of the values that --bucket-cap-mb, --global-batch, --accumulation,"
        " --precision and --workers list: throughput, and the gain over the first combination with"
        " its spread. If you start it again, it continues where it stopped.",
        OWN - {"strategy"}, "2",
    )  # fmt: skip
    drawing = commands.add_parser("figure", help="redraw the figures from a study's CSV file")
    drawing.add_argument("study", metavar="DIR|CSV", help="a study's folder, or its CSV file")
    return top


def _timed(
    commands: Any, kind: str, note: str, description: str, own: set[str], ranks: str = RANKS
) -> None:
    """Add the parser of a study whose runs are repeated, and which can be done in parts."""
    study = _command(commands, kind, note, description, own, ranks)
    study.add_argument(
        "--repeats", type=int, metavar="n", default=REPEATS,
        help=f"how many times each run is done (default: {REPEATS})",
    )  # fmt: skip
    study.add_argument(
        "--part", metavar="K", default=None,
        help="do run K only, counted from 0, then tabulate all finished runs (for job arrays)",
    )  # fmt: skip
    study.add_argument(
        "--parts", action="store_true", default=False, help="list the runs without starting any"
    )
    add_json(study)


def _command(
    commands: Any, kind: str, note: str, description: str, own: set[str], ranks: str = RANKS
) -> Parser:
    """Add a study's parser, with its runs' settings except those that the study sets itself."""
    many = "," in ranks
    study: Parser = commands.add_parser(
        kind,
        help=note,
        usage=f"dtlib study {kind} [text|images] [--ranks {ranks}] [--out DIR] [--SETTING VALUE …]",
        description=description,
        argument_default=argparse.SUPPRESS,
    )
    study.add_argument(
        "--ranks", metavar="A,B,…" if many else "N", default=ranks,
        help=f"number{'s' * many} of ranks (default: {ranks})",
    )  # fmt: skip
    study.add_argument(
        "--out", metavar="DIR", default=None, help="the study's folder (default: studies/…)"
    )
    add_settings(study, but=own, choices={"strategy": strategy_names()})
    return study


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    numbers = [int(word) if word.isdecimal() else 0 for word in _words(text)]
    if not numbers or min(numbers) < 1:
        raise BadInput(f"--ranks {text!r} must be whole numbers of at least 1, such as {RANKS}.")
    return numbers


def _part(text: str | None) -> int | None:
    if text is not None and not text.isdecimal():
        raise BadInput(f"--part {text!r} must be a whole number from 0 up; --parts lists the runs.")
    return None if text is None else int(text)
