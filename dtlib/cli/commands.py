"""The table of commands: their names, their lines of help, and the functions that run them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from dtlib.cli import machine, saved, training

HEAD = """\
dtlib: distributed training, from one laptop to a cluster

"""
TAIL = """
A first run, for which a laptop is enough (about a minute):

  dtlib train text --steps 50 --ranks 2

`dtlib COMMAND --help` lists the settings of a command; `dtlib --version` prints the version.
"""


class Command(NamedTuple):
    """The function that runs a command, and a line of help for each way to call it."""

    run: Callable[[list[str]], int]
    uses: dict[str, str]


def elsewhere(module: str) -> Callable[[list[str]], int]:
    """Return a function that imports a module when it is called, and runs the module's `main`."""
    return lambda words: importlib.import_module(module).main(words)


COMMANDS: dict[str, Command] = {
    "doctor": Command(
        machine.doctor, {"": "what this machine can run, and how to get what is missing"}
    ),
    "fetch": Command(
        machine.fetch,
        {"[NAME]": "get data sets and checkpoints; without a name, list them"},
    ),
    "ops": Command(
        machine.ops, {"build|list": "compile DeepSpeed's operators once, for offload and infinity"}
    ),
    "train": Command(
        training.train,
        {"images|text": "train a model over several processes, and record the run"},
    ),
    "profile": Command(
        elsewhere("dtlib.cli.profiles"),
        {
            "nsys|ncu": "run a training under NVIDIA's profilers and record some steps",
            "read FILE": "what they recorded: shares of kernels, NCCL, idle; FLOP/s reached",
        },
    ),
    "clinic": Command(
        elsewhere("dtlib.cli.clinic"),
        {
            "FILES": "why a run hangs: who waits for whom, in which collective, on which line",
            "record SCRIPT": "run a script under torchrun and keep what `dtlib clinic` reads",
            "spy": "the stacks of ranks that hang already, by py-spy",
        },
    ),
    "export": Command(
        saved.export,
        {"RUN FOLDER": "a run's weights as safetensors, which transformers loads"},
    ),
    "checkpoints": Command(
        saved.checkpoints,
        {"PLACE": "which checkpoints are whole, and what interrupted saves have left (--clean)"},
    ),
    "lessons": Command(
        elsewhere("dtlib.lessons"),
        {
            "list": "list the lessons, what each needs and how long it takes",
            "build|run": "build their notebooks; run them from top to bottom",
            "ready NN …": "the evening before a workshop: the doctor, lessons, one line to send",
            "catch-up NN": "a student's notebook whose first exercises are solved",
        },
    ),
    "class": Command(
        elsewhere("dtlib.lessons.class_view"),
        {
            "serve": "for an instructor: see live who passed what, who is stuck and where",
            "report": "how the class did, as a table and a CSV file",
        },
    ),
    "certificate": Command(
        elsewhere("dtlib.cli.certificate"),
        {
            "": "the exercises that you passed, in a file that others can verify",
            "verify FILE": "refuse an edited file, and run its answers again",
        },
    ),
    "batch": Command(
        elsewhere("dtlib.cluster.batch"),
        {
            "submit|status": "lessons and scripts as jobs; `collect` gathers their results",
            "launch": "start a training as slurm/distributed.yaml describes it",
        },
    ),
    "report": Command(
        elsewhere("dtlib.study.report"),
        {"FOLDER": "one HTML page about a run or a job: steps, devices, queue, ending"},
    ),
    "study": Command(
        elsewhere("dtlib.study"),
        {
            "strategies": "one model under every strategy: predictions beside measurements",
            "strong|weak": "one model on more and more ranks: efficiency, with its spread",
            "sensitivity": "every combination of a few settings: what helps, and what is noise",
            "figure": "redraw a study's tables and figures from its CSV file alone",
        },
    ),
    "capstone": Command(
        elsewhere("dtlib.study.capstone"),
        {"FOLDER": "a paper, a request for node-hours and five slides from your studies"},
    ),
    "bench": Command(
        elsewhere("dtlib.cli.bench"),
        {
            "links": "collectives of growing size: latency, algbw and busbw between ranks",
            "disk FOLDER": "one large file, and the same bytes in thousands of small ones",
        },
    ),
    "sim": Command(
        elsewhere("dtlib.cli.simulate"),
        {"memory": "predict what a rank holds and sends, also on devices you don't have"},
    ),
    "completion": Command(
        lambda words: importlib.import_module("dtlib.cli.completing").completion(words),
        {"bash|zsh|fish": "make your shell complete commands, settings and choices"},
    ),
}


def help_text() -> str:
    """Return what `dtlib --help` prints: a line for each use of each command."""
    lines = [
        f"  {f'dtlib {name} {words}':<27}  {note}\n"
        for name, command in COMMANDS.items()
        for words, note in command.uses.items()
    ]
    return HEAD + "".join(lines) + TAIL
