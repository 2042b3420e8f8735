"""`dtlib class serve | report`: an instructor sees live who passed which exercise, who is stuck."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dtlib.config.flags import Parser
from dtlib.errors import BadInput

PORT = 8733
FOLDER = Path(".dtlib/class")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dtlib class …` and return its exit code.

    Raises `BadInput` for an address, a port or a folder that cannot be used, `Unavailable` without
    starlette and uvicorn.
    """
    args = parser().parse_args(list(sys.argv[1:] if argv is None else argv))
    if args.command == "report":
        from dtlib.lessons.class_view.reporting import report

        print(report(args.folder, args.to))
        return 0
    if not 0 <= args.port <= 65535:
        raise BadInput(f"--port is {args.port}; it must be from 0 (any that is free) to 65535.")
    if args.students < 1:
        raise BadInput(f"--students is {args.students}; it must be at least 1.")
    from dtlib.lessons.class_view.serving import serve

    serve(args.folder, args.address, args.port, args.students)
    return 0


def parser() -> Parser:
    """The command line of `dtlib class`."""
    top = Parser(prog="dtlib class", description="See live how a class is doing.")
    commands = top.add_subparsers(dest="command", required=True)
    serving = commands.add_parser(
        "serve", help="serve the class view in the local network until Ctrl-C"
    )
    serving.add_argument(
        "--address", help="the address to listen on (default: this machine's, local network)"
    )
    serving.add_argument(
        "--port", type=int, default=PORT, help=f"0 takes one that is free (default: {PORT})"
    )
    serving.add_argument(
        "--students", type=int, default=60, metavar="N", help="how many may join (default: 60)"
    )
    reporting = commands.add_parser("report", help="how the class did: a table, and a CSV file")
    reporting.add_argument("--to", type=Path, metavar="FILE", help="also write a CSV file")
    for command in (serving, reporting):
        command.add_argument(
            "--folder", type=Path, default=FOLDER, metavar="DIR",
            help=f"where the class is kept (default: {FOLDER})",
        )  # fmt: skip
    return top
