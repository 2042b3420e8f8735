"""`dtlib lessons list | new | build | run | pages | ready | catch-up`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtlib.config.flags import Parser, add_json
from dtlib.config.terminal import to_json
from dtlib.learn.source import find, lessons, sources_folder
from dtlib.learn.translations import languages, translated, untranslated
from dtlib.lessons.build import KINDS, build_notebooks
from dtlib.lessons.validate import validate_all


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dtlib lessons …` and return its exit code.

    Raises `BadInput` for an unknown lesson or parameter, or a source that breaks a rule.
    """
    args = parser().parse_args(argv)
    if args.command == "list":
        return _list(as_json=args.json)
    if args.command == "new":
        return _new(args.number, args.name)
    if args.command == "build":
        return _build(check=args.check)
    if args.command == "catch-up":
        return _catch_up(args.lesson, args.to, args.out)
    try:
        return {"pages": _pages, "ready": _ready, "run": _run}[args.command](args)
    except KeyboardInterrupt:
        print(f"Interrupted; what has run so far is in {args.out}.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The command line of `dtlib lessons`."""
    top = Parser(prog="dtlib lessons", description="List, create, build or run lessons.")
    commands = top.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="number, title, minutes and needs of every lesson")
    add_json(listing)
    making = commands.add_parser("new", help="create a new lesson from a working example")
    making.add_argument("number", metavar="NN", help="a free number, such as 03")
    making.add_argument("name", help="words joined by _, such as text_pipeline")
    building = commands.add_parser("build", help="write the notebooks and the tables of lessons")
    building.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if anything differs"
    )
    running = commands.add_parser("run", help="run lessons from top to bottom, with papermill")
    running.add_argument("lessons", nargs="*", metavar="NN", help="numbers (default: all)")
    running.add_argument(
        "--kind", choices=(*KINDS, "both"), default="student",
        help="which notebooks (default: student; `pages` runs the solutions)",
    )  # fmt: skip
    running.add_argument(
        "--work", type=Path, metavar="DIR", help="where they run (default: beside the notebooks)"
    )
    running.add_argument(
        "--language", metavar="de", help="the lessons' translation (default: English)"
    )
    running.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    paging = commands.add_parser(
        "pages", help="run for the website the lessons that changed since their last run"
    )
    paging.add_argument("lessons", nargs="*", metavar="NN", help="numbers (default: all)")
    readying = _add_teaching(commands)
    folders = {running: "build/lessons", paging: "build/book/lessons", readying: "build/ready"}
    for command, folder in folders.items():
        command.add_argument("--jobs", type=int, default=2, help="notebooks at a time (default: 2)")
        command.add_argument("--out", type=Path, default=Path(folder), help="output folder")
        command.add_argument("--timeout", type=int, default=300, help="seconds per cell")
    return top


def _add_teaching(commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    """Add what an instructor calls; return the parser of `ready`, which runs lessons."""
    readying = commands.add_parser(
        "ready", help="the evening before: the doctor and these lessons, and one line to send back"
    )
    readying.add_argument("lessons", nargs="+", metavar="NN", help="numbers of the lessons")
    catching = commands.add_parser(
        "catch-up", help="write a student's notebook whose first exercises are solved"
    )
    catching.add_argument("lesson", metavar="NN", help="the lesson's number")
    catching.add_argument(
        "--to", type=int, required=True, metavar="K", help="the last exercise that is solved"
    )
    catching.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where it goes (default: the student's notebooks)",
    )
    return readying


def _run(args: argparse.Namespace) -> int:
    from dtlib.lessons.run import run_all

    chosen = [find(number) for number in args.lessons] if args.lessons else lessons()
    out = args.out
    if args.language:
        chosen = [translated(lesson, args.language) for lesson in chosen]
        out = out / args.language
    kinds = list(KINDS) if args.kind == "both" else [args.kind]
    return run_all(
        chosen, kinds=kinds, out=out, work=args.work, jobs=args.jobs,
        parameters=args.parameter, timeout=args.timeout,
    )  # fmt: skip


def _pages(args: argparse.Namespace) -> int:
    from dtlib.lessons.pages import build_pages

    chosen = [find(number) for number in args.lessons] or None
    return build_pages(lessons(), args.out, chosen=chosen, jobs=args.jobs, timeout=args.timeout)


def _ready(args: argparse.Namespace) -> int:
    from dtlib.lessons.teaching.ready import ready

    chosen = [find(number) for number in args.lessons]
    return ready(chosen, args.out, jobs=args.jobs, timeout=args.timeout)


def _catch_up(number: str, to: int, out: Path | None) -> int:
    from dtlib.lessons.teaching.catch_up import catch_up

    lesson = find(number)
    validate_all([lesson])
    path, said = catch_up(lesson, to, out or sources_folder().parent / "notebooks" / "student")
    print(f"{said}\n{path}")
    return 0


def _list(*, as_json: bool) -> int:
    everything = lessons()
    validate_all(everything)
    if as_json:
        print(to_json([{"number": lesson.number, **lesson.header} for lesson in everything]))
        return 0
    for lesson in everything:
        header = lesson.header
        total = sum(header["minutes"].values())
        needs = ", ".join(header["needs"])
        print(f"{lesson.number}  {header['title']}  ({total} min; needs {needs})")
    return 0


def _new(number: str, name: str) -> int:
    from dtlib.lessons.scaffold import new_room, what_next

    room = new_room(number, name, sources_folder())
    print(f"created: {room}\n{what_next(room)}")
    return 0


def _build(*, check: bool) -> int:
    sources = sources_folder()
    changed = build_notebooks(sources, sources.parent / "notebooks", check=check)
    for path in changed:
        print(f"{'differs from its source' if check else 'written'}: {path}")
    for lesson in lessons(sources):
        for language in languages(lesson):
            for fault in untranslated(translated(lesson, language)):
                print(fault)
    if check and changed:
        print("Run `dtlib lessons build` and commit what it writes.")
        return 1
    return 0
