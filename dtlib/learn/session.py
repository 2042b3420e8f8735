"""The lesson that is open in this kernel: `start` opens it, everything else asks for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from dtlib.errors import BadInput
from dtlib.learn import classroom, rooms, source, translations
from dtlib.ranks.show import in_notebook
from dtlib.strategies import operators as ops

FIGURES = "module://dtlib.learn.figures"
_state: dict[str, Any] = {"lesson": None, "passed": {}}


def start(number: str | int, language: str | None = None) -> None:
    """Open a lesson; its notebook calls this first.

    In a notebook it registers `%%ranks` and warms ranks up. It prints in a few lines which lesson
    this is, how long it takes, and which of its needs this machine does not meet.

    Parameters
    ----------
    number
        The lesson's number, `"07"` or `7`.
    language
        The language of its forms, hints and sentences, such as `"de"`; by default English.

    Raises
    ------
    BadInput
        When there is no such lesson, or it is not translated into the language.
    """
    lesson = source.find(number)
    if language is not None:
        lesson = translations.translated(lesson, language)
    rooms.enter(lesson)
    _state.update(lesson=lesson, passed={})
    minutes = lesson.header["minutes"]
    print(
        f"Lesson {lesson.number}: {lesson.header['title']} ({minutes['read']} min to read, "
        f"{minutes['exercises']} min of exercises).\n"
        "Your answers are kept in .dtlib beside this notebook."
    )
    for need in missing():
        print(need)
    classroom.resume()
    if in_notebook():
        _prepare_notebook()


def _prepare_notebook() -> None:
    from IPython import get_ipython

    # pyplot loads it when a cell first draws: figures in the course's look, as SVG.
    os.environ["MPLBACKEND"] = FIGURES
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use(FIGURES)
    from dtlib.learn.magic import register
    from dtlib.ranks.dist import install_stop_handlers
    from dtlib.ranks.launcher import warm

    register(get_ipython())
    install_stop_handlers("SIGUSR1")  # as Slurm sends it when a job's time is nearly up
    warm()


def current() -> source.Lesson:
    """The lesson that was started.

    Raises
    ------
    BadInput
        When none was.
    """
    if _state["lesson"] is None:
        raise BadInput('no lesson is open: run its first cell, for instance learn.start("07").')
    return _state["lesson"]


def remember_pass(name: str, function: Callable[..., Any]) -> None:
    """Keep a function that passed its check, for `given`."""
    _state["passed"][name] = function


def passed(name: str) -> Callable[..., Any] | None:
    """The student's function that passed in this kernel, or None."""
    return _state["passed"].get(name)


def missing() -> list[str]:
    """One sentence for each need of the open lesson that this machine does not meet."""
    return [_SENTENCE[need] for need in current().header["needs"] if not _MET[need]()]


def ready() -> bool:
    """Whether this machine has everything that the open lesson needs.

    A lesson calls this before it runs something that needs a GPU or a cluster; otherwise it shows
    recorded results.
    """
    return not missing()


def _gpus() -> int:
    # Asked through NVML: CUDA must not start in the kernel, or ranks could not be forked from it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    return torch.cuda.device_count()


_MET: dict[str, Callable[[], bool]] = {
    "laptop": lambda: True,
    "linux": lambda: sys.platform.startswith("linux"),
    "deepspeed": ops.deepspeed_is_here,
    "s3": lambda: all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "boto3")),
    "gpu": lambda: _gpus() >= 1,
    "multi-gpu": lambda: _gpus() >= 2,
    "slurm": lambda: shutil.which("sbatch") is not None,
}
NEEDS = tuple(_MET)
_SENTENCE = {
    "linux": "Not here: this lesson needs Linux, so it shows recorded results instead.",
    "deepspeed": "Not here: DeepSpeed is not installed (it does not run on macOS), so this lesson "
    "shows recorded results instead. All exercises still work.",
    "s3": "Not here: s3fs and moto are not both installed (pip install s3fs 'moto[s3,server]'), so "
    "the part about S3 shows recorded results instead. All exercises still work.",
    "gpu": "Not here: this lesson needs a GPU, so it shows recorded results instead.",
    "multi-gpu": "Not here: this lesson needs two GPUs or more, so it shows recorded results.",
    "slurm": "Not here: this lesson needs Slurm's sbatch, so it shows recorded results instead.",
}
