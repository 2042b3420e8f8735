"""`dtlib train`: flags and a YAML file in, a run out."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtlib import strategies
from dtlib.cli.describing import describe, own_rank
from dtlib.config import RunConfig
from dtlib.config.belonging import refuse_without_effect
from dtlib.config.files import read_yaml
from dtlib.config.flags import Parser, add_settings, hyphens
from dtlib.errors import BadInput, DtlibError, Stopped


def train(words: list[str]) -> int:
    """Train, and print a summary of the run in a few lines."""
    config, as_json = parse_train(words)
    from dtlib.training.start import train as train_run

    try:
        run = train_run(config)
    except DtlibError as error:
        # torchrun turns any exit code into 1; the file says that the run was only stopped.
        if config.out and (Path(config.out) / "requeue").exists():
            raise Stopped(str(error)) from error
        raise
    if own_rank() != 0:
        return 0
    if as_json:
        from dtlib.training.record import to_json

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
    flags = vars(train_parser().parse_args([hyphens(word) for word in words]))
    as_json, path = flags.pop("json"), flags.pop("config")
    content = read_yaml(path) if path else {}
    if "task" not in flags and "task" not in content:
        raise BadInput("say what to train: `dtlib train images` or `dtlib train text`.")
    try:
        config = RunConfig.from_mapping({**content, **flags})
    except BadInput as error:
        if path and _refused(content, flags.get("task", "text")):
            raise BadInput(f"in the configuration {path}, {error}") from None
        raise
    refuse_without_effect(vars(config), flags)  # a flag is a choice, even of the default
    return config, as_json


def _refused(content: Mapping[str, Any], task: str) -> bool:
    """Tell whether a file's settings are refused even without the flags."""
    try:
        RunConfig.from_mapping({"task": task, **content})
    except BadInput:
        return True
    return False


def train_parser() -> Parser:
    """Return the parser of `dtlib train`: a flag for each field of `RunConfig`."""
    parser = Parser(
        prog="dtlib train",
        usage="dtlib train images|text [--ranks N] [--steps K] [--model M] [--strategy S] …",
        description=(inspect.getdoc(RunConfig) or "").partition("\n\nParameters")[0],
        epilog="exit codes: 0 done, 1 failed, 2 bad input, 69 not available here, 75 stopped",
        argument_default=argparse.SUPPRESS,
    )
    add_settings(parser, choices={"strategy": strategies.names()})
    parser.add_argument(
        "--config", metavar="FILE", default=None, help="YAML file of settings; flags win over it"
    )
    parser.add_argument(
        "--json", action="store_true", default=False, help="print the summary as JSON (last line)"
    )
    return parser
