"""The command line: `dtlib doctor | fetch | train | lessons | batch`.

Exit codes: 0 done, 1 the run failed, 2 bad input, 69 not available on this machine, 75 stopped by
a signal with a checkpoint written, 130 interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dtlib import __version__
from dtlib.config import CHOICES, RunConfig
from dtlib.errors import BadInput, DtlibError, Stopped, did_you_mean
from dtlib.files import read_yaml

if TYPE_CHECKING:
    from dtlib.record import Run

PIPE_CLOSED = 141  # the same of a program that wrote for `head` and had not done yet
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended

HELP = """\
dtlib: distributed training, from one laptop to a cluster

  dtlib doctor                 what this machine can run; a remedy for all that is missing
  dtlib fetch [NAME]           bring data sets and checkpoints; without a name: which there are
  dtlib train images|text      train a model over several processes, and record the run
  dtlib lessons list           the lessons: what each needs and how long it takes
  dtlib lessons build|run      make their notebooks; run them from top to bottom
  dtlib batch submit|status    lessons as Slurm jobs; `collect` brings their notebooks

A first run, with nothing but a laptop (about a minute):

  dtlib train text --steps 50 --ranks 2

`dtlib COMMAND --help` lists the settings of a command; `dtlib --version` tells the version.
"""


class Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong in one sentence, and names the nearest right flag."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        hint = f" `{self.prog} --help` lists all settings."
        match = re.match(r"unrecognized arguments: (\S+)", message)
        if match:
            word = match[1].partition("=")[0]
            message = f"unknown setting {word!r}"
            if word.startswith("-"):
                hint = did_you_mean(word, self._option_string_actions) or hint
        raise BadInput(f"{message}.{hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv
        Words after `dtlib`; those of this process when left out.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        print(end="", flush=True)
        return code
    except DtlibError as error:
        _explain(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("dtlib: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Where output still waits to be written, Python would complain once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print("dtlib: ended, since nobody reads its output any more.", file=sys.stderr)
        return PIPE_CLOSED


def _dispatch(words: list[str]) -> int:
    commands: dict[str, Callable[[list[str]], int]] = {
        "doctor": doctor,
        "fetch": fetch,
        "train": train,
        "lessons": elsewhere("dtlib.lessons"),
        "batch": elsewhere("dtlib.batch"),
    }
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(f"dtlib {__version__}")
        return 0
    if words[0] not in commands:
        known = ", ".join(commands)
        near = did_you_mean(words[0], commands)
        raise BadInput(f"unknown command {words[0]!r}; there is {known}.{near}")
    return commands[words[0]](words[1:])


def doctor(words: list[str]) -> int:
    """Say what this machine can run."""
    parser = Parser(prog="dtlib doctor", description="What this machine can run.")
    parser.add_argument("--nodes", action="store_true", help="all nodes of this Slurm allocation")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    settings = parser.parse_args(words)
    from dtlib.doctor import look

    return look(nodes=settings.nodes, as_json=settings.json)


def fetch(words: list[str]) -> int:
    """Bring data sets and checkpoints, or list them."""
    parser = Parser(
        prog="dtlib fetch",
        description="Bring data sets and checkpoints, each file checked by its hash.",
        epilog="`dtlib fetch` alone lists what there is.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to bring")
    parser.add_argument(
        "--from",
        dest="carried",
        action="append",
        default=[],
        metavar="FILE",
        help="take it from a file, or a folder of files, that you carried here; no network is used",
    )
    parser.add_argument("--urls", action="store_true", help="only say where it can be downloaded")
    settings = parser.parse_args(words)
    from dtlib.fetch import SOURCES, addresses, get, listing

    if settings.urls:
        for name in settings.names or SOURCES:
            print(addresses(name))
    elif settings.names:
        get(settings.names, settings.carried)
    elif settings.carried:
        raise BadInput("say what the file is: `dtlib fetch NAME --from FILE`.")
    else:
        print(listing())
    return 0


def elsewhere(module: str) -> Callable[[list[str]], int]:
    """Return the command whose command line is a module's own."""
    return lambda words: importlib.import_module(module).main(words)


def train(words: list[str]) -> int:
    """Train, and say in a few lines what came of it."""
    config, as_json = parse_train(words)
    from dtlib.loop import train as train_run

    try:
        run = train_run(config)
    except DtlibError as error:
        # torchrun turns any exit code into 1; the file says that the run was only stopped.
        if config.out and (Path(config.out) / "requeue").exists():
            raise Stopped(str(error)) from error
        raise
    if _rank() != 0:
        return 0
    if as_json:
        from dtlib.record import to_json

        print(to_json(run.summary), flush=True)
    else:
        print(describe(run), flush=True)
    return 0


def parse_train(words: list[str]) -> tuple[RunConfig, bool]:
    """Make the configuration of `dtlib train`: a flag wins over the file of `--config`.

    Returns
    -------
    tuple
        The configuration, and whether the summary is wanted as JSON.

    Raises
    ------
    BadInput
        A flag, a key or a value is unknown, or two contradict each other.
    """
    flags = vars(train_parser().parse_args([_hyphens(word) for word in words]))
    as_json, path = flags.pop("json"), flags.pop("config")
    content = read_yaml(path) if path else {}
    if "task" not in flags and "task" not in content:
        raise BadInput("say what to train: `dtlib train images` or `dtlib train text`.")
    return RunConfig.from_mapping({**content, **flags}), as_json


def train_parser() -> Parser:
    """The parser of `dtlib train`: a flag for each field of `RunConfig`.

    Values stay text here: `RunConfig.from_mapping` gives flags and YAML the same types and the
    same sentences.
    """
    parser = Parser(
        prog="dtlib train",
        usage="dtlib train images|text [--ranks N] [--steps K] [--model M] [--strategy S] …",
        description=(inspect.getdoc(RunConfig) or "").partition("\n\nParameters")[0],
        epilog="exit codes: 0 done, 1 failed, 2 bad input, 69 not available here, 75 stopped",
        argument_default=argparse.SUPPRESS,
    )
    notes = _parameter_notes(RunConfig)
    parser.add_argument("task", nargs="?", metavar="images|text", help=notes.get("task"))
    for field in dataclasses.fields(RunConfig):
        if field.name != "task":
            _add_flag(parser, field, notes.get(field.name, ""))
    parser.add_argument(
        "--config", metavar="FILE", default=None, help="YAML file of settings; flags win over it"
    )
    parser.add_argument(
        "--json", action="store_true", default=False, help="last line on stdout: the summary"
    )
    return parser


def _add_flag(parser: Parser, field: dataclasses.Field[Any], note: str) -> None:
    flag, kind = "--" + field.name.replace("_", "-"), str(field.type)
    if field.default is not None and "(default" not in note:
        shown = ("on" if field.default else "off") if kind == "bool" else field.default
        note = f"{note} (default: {shown})"
    note = note.replace("%", "%%")
    if kind == "bool":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=note)
        return
    name = "N" if kind.startswith("int") else "X" if kind.startswith("float") else "NAME"
    name = "|".join(CHOICES.get(field.name, [name]))
    parser.add_argument(flag, metavar=name, help=note)


def _parameter_notes(kind: type) -> dict[str, str]:
    """Text of each entry under "Parameters" in a NumPy-style docstring."""
    text = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")[2]
    text = re.split(r"\n\n\w+\n-+\n", text)[0]
    entries = re.findall(r"^(\w+)[^\n]*\n((?:[ ]+[^\n]*\n?)+)", text, flags=re.MULTILINE)
    return {name: " ".join(note.split()) for name, note in entries}


def _hyphens(word: str) -> str:
    """`--global_batch=8` is `--global-batch=8`; a value keeps its underscores."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else word


def describe(run: Run) -> str:
    """A few lines on a finished run, for people."""
    summary = run.summary
    lines = dict(summary.get("evaluation") or {})
    if summary.get("throughput"):
        steps = f"median of {summary['timed_steps']} steps"
        lines["speed"] = f"{summary['throughput']:.4g} {summary['throughput_unit']} ({steps})"
    lines["records"] = str(run.folder)
    width = max(map(len, lines))
    head = f"done: {summary.get('steps', len(run.history))} steps, loss {run.loss:.6g}"
    return "\n".join([head, *(f"  {key:<{width}}  {_say(lines[key])}" for key in lines)])


def _say(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _explain(error: DtlibError) -> None:
    """Print what went wrong in one sentence, and what a failed rank left below it."""
    rank = _rank()
    if rank and isinstance(error, BadInput):
        # Rank 0 says the same; were we to leave first, torchrun would end it before it has.
        time.sleep(5.0)
        return
    who = f"dtlib: rank {rank}" if rank else "dtlib"
    print(f"{who}: {error}", file=sys.stderr)
    traceback = getattr(error, "traceback", "")
    if traceback and traceback not in str(error):
        print(traceback.rstrip(), file=sys.stderr)


def _rank() -> int:
    """Rank that torchrun or srun gave to this process; 0 where it was started by hand."""
    from dtlib.dist import environment_world

    try:
        there = environment_world()
    except BadInput:  # it contradicts itself, which every rank says
        return 0
    return there.rank if there else 0
