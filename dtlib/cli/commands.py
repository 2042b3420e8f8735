"""The one table of commands: what each is called, what the help says of it, and who runs it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from dtlib.cli import machine, training

HEAD = """\
dtlib: distributed training, from one laptop to a cluster

"""
TAIL = """
A first run, with nothing but a laptop (about a minute):

  dtlib train text --steps 50 --ranks 2

`dtlib COMMAND --help` lists the settings of a command; `dtlib --version` tells the version.
"""


class Command(NamedTuple):
    """What runs a command's words, and a line of help for each way to call it."""

    run: Callable[[list[str]], int]
    uses: dict[str, str]


def elsewhere(module: str) -> Callable[[list[str]], int]:
    """Return the command whose command line is a module's own `main`."""
    return lambda words: importlib.import_module(module).main(words)


COMMANDS: dict[str, Command] = {
    "doctor": Command(
        machine.doctor, {"": "what this machine can run; a remedy for all that is missing"}
    ),
    "fetch": Command(
        machine.fetch,
        {"[NAME]": "bring data sets and checkpoints; without a name: which there are"},
    ),
    "ops": Command(
        machine.ops, {"build|list": "compile DeepSpeed's operators, once: offload and infinity"}
    ),
    "train": Command(
        training.train,
        {"images|text": "train a model over several processes, and record the run"},
    ),
    "profile": Command(
        elsewhere("dtlib.cli.profiles"),
        {
            "nsys|ncu": "a training under NVIDIA's profilers: some steps, every rank",
            "read FILE": "what they wrote: shares of kernels, NCCL, idle; FLOP/s reached",
        },
    ),
    "export": Command(
        elsewhere("dtlib.training.checkpoint.export"),
        {"RUN FOLDER": "a run's weights as safetensors, which transformers loads"},
    ),
    "lessons": Command(
        elsewhere("dtlib.lessons"),
        {
            "list": "the lessons: what each needs and how long it takes",
            "build|run": "make their notebooks; run them from top to bottom",
        },
    ),
    "batch": Command(
        elsewhere("dtlib.cluster.batch"),
        {
            "submit|status": "lessons and scripts as Slurm jobs; `collect` brings what they made",
            "launch": "a training as slurm/distributed.yaml says, by its launcher",
        },
    ),
    "report": Command(
        elsewhere("dtlib.study.report"),
        {"FOLDER": "one HTML page of a run or a job: steps, devices, queue, how it ended"},
    ),
    "study": Command(
        elsewhere("dtlib.study"),
        {
            "strategies": "the same model under every strategy, predicted beside measured",
            "strong|weak": "the same model on more and more ranks: honest efficiency, with spread",
            "sensitivity": "every combination of a few settings: what gains, and what is noise",
            "figure": "any study's tables and figures again, from its CSV file alone",
        },
    ),
    "sim": Command(
        elsewhere("dtlib.cli.simulate"),
        {"memory": "what a rank would hold and send, also on devices that are not here"},
    ),
    "completion": Command(
        lambda words: importlib.import_module("dtlib.cli.completing").completion(words),
        {"bash|zsh|fish": "make your shell complete commands, settings and choices"},
    ),
}


def help_text() -> str:
    """What `dtlib --help` prints: a line for each use of each command."""
    lines = [
        f"  {f'dtlib {name} {words}':<27}  {note}\n"
        for name, command in COMMANDS.items()
        for words, note in command.uses.items()
    ]
    return HEAD + "".join(lines) + TAIL
