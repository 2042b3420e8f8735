"""`dtlib certificate` and `dtlib certificate verify FILE`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from dtlib.config.files import write_atomically
from dtlib.config.flags import Parser
from dtlib.errors import BadInput

OUT = Path("certificate.md")


def main(words: list[str]) -> int:
    """Write a certificate, or verify one, and return the exit code.

    Raises `BadInput` when nothing was passed, and for a file that is none or was edited.
    """
    args = parser().parse_args(words)
    return _verify(args.file) if args.command == "verify" else _make(args)


def parser() -> Parser:
    """The command line of `dtlib certificate`."""
    top = Parser(
        prog="dtlib certificate",
        description="List the exercises that you have passed, with your answers, in a file that"
        " others can verify.",
    )
    top.add_argument("--name", default="", help="your name, as it shall stand in the file")
    top.add_argument(
        "--out", type=Path, default=OUT, metavar="FILE", help=f"the file (default: {OUT})"
    )
    top.add_argument(
        "--folder", type=Path, default=Path(), metavar="DIR",
        help="where your notebooks are (default: here)",
    )  # fmt: skip
    commands = top.add_subparsers(dest="command")
    verifying = commands.add_parser(
        "verify",
        help="refuse an edited file, and run its answers again",
        description="Refuse a certificate that was edited, and run its answers through the checks.",
        epilog="Answers are programs, and verifying runs them: use an account or a container that"
        " has nothing to lose. Exit codes: 0 all answers pass, 1 one does not, 2 edited.",
    )
    verifying.add_argument("file", type=Path, metavar="FILE", help="the certificate")
    return top


def _make(args: argparse.Namespace) -> int:
    from dtlib.learn import certificates

    out = args.out.absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise BadInput(f"{args.out} is no file in a folder that exists: choose another --out.")
    if out.exists() and certificates.BEGIN not in out.read_text("utf-8", "replace"):
        raise BadInput(f"{args.out} is no certificate, so it is left alone: choose another --out.")
    if not args.folder.is_dir():
        raise BadInput(f"there is no folder {args.folder}: give the one of your notebooks.")
    with contextlib.chdir(args.folder):
        found = certificates.facts(args.name)
    write_atomically(out, certificates.written(found))
    rows = found["passed"]
    answers = sum("answer" in row for row in rows)
    print(f"Exercises passed: {len(rows)}; with an answer that can be run again: {answers}.")
    print(f"Written: {args.out}")
    return 0


def _verify(file: Path) -> int:
    from dtlib.learn import certificates

    found = certificates.read(file)
    print(
        f"{file} is consistent: {found['name'] or 'no name'}, made on {found['made']} with dtlib"
        f" {found['dtlib']}, commit {certificates.short(found['commit'])}."
    )
    ended = []
    for exercise, passes, sentence in certificates.verdicts(found):
        ended.append(passes)
        print(f"  {exercise}: {sentence}", flush=True)
    failed, claimed = ended.count(False), ended.count(None)
    print(f"{ended.count(True)} verified, {failed} failed, {claimed} claimed without an answer.")
    return 1 if failed else 0
