"""The ward of lesson 10: its patients, how one is seen by a doctor, and what it does when cured."""

from __future__ import annotations

import contextlib
import functools
import linecache
import random
import socket
import tempfile
from pathlib import Path
from typing import Any

from dtlib.ranks.launcher import run_ranks
from dtlib.ranks.outcome import Outcome, doing

from .cases import given

FOLDER = Path(__file__).parent / "patients"
LOUD = tuple(f"p{number:02}" for number in range(1, 7))
SILENT = tuple(f"p{number:02}" for number in range(7, 18))
SECONDS = 3.0  # that a rank waits for others before it is ended: nothing here waits longer
PORT = 6006  # as a job's script names it; where patients run together, each gets a free one

LOUD_KINDS = {
    "order": "ranks wait for each other in a circle",
    "mismatch": "ranks call different collectives at the same place",
    "uneven": "some ranks have fewer steps than the others",
    "unused": "a parameter that DDP waits for gets no gradient",
    "port": "several ranks of one machine take one port",
    "saving": "every rank writes what one rank should write",
}
SILENT_KINDS = {
    "seeds": "ranks draw the same random numbers",
    "epoch": "each epoch has the same order",
    "padding": "samples that the sampler repeats to even out the ranks are counted",
    "division": "the ranks' sum is used as their mean",
    "weighting": "a mean of means, although the parts differ in size",
    "batch_norm": "each rank has running statistics of its own",
    "branch": "all ranks take the step, but in different ways, each by its own number",
    "stale": "gradients of earlier steps are still there",
    "scheduler": "the schedule runs faster the more ranks there are",
    "clipping": "a gradient is clipped in another unit than its limit",
    "skip": "one rank takes no step where the others take one",
}


@functools.cache
def program(name: str) -> str:
    """Return the text of a patient's program."""
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def show(*names: str, ranks: int = 3) -> None:
    """Print programs with line numbers, and what each rank is given."""
    for name in names:
        print(f"{name}.py")
        for number, line in enumerate(program(name).splitlines(), 1):
            print(f"{number:3}  {line}")
        for line in in_words([given(name, rank, ranks, port=PORT) for rank in range(ranks)]):
            print(f"     {line}")
        print()


def in_words(arguments: list[dict[str, Any]]) -> list[str]:
    """Say what ranks are given, in one line if it is the same for all."""
    told = [
        ", ".join(f"{name} = {short(value)}" for name, value in one.items()) for one in arguments
    ]
    if len(set(told)) == 1:
        return [f"given: {told[0]}"]
    return [f"given on rank {rank}: {words}" for rank, words in enumerate(told)]


def treated(name: str, cure: dict[int, str]) -> str:
    """Return a patient's program with other text for some lines, in the indentation of each."""
    lines = program(name).splitlines()
    for number, text in cure.items():
        old = lines[number - 1]
        indent = old[: len(old) - len(old.lstrip())]
        lines[number - 1] = "\n".join(indent + line for line in text.splitlines())
    return "\n".join(lines) + "\n"


def on_rank(name: str, text: str, case: int, port: int, folder: str) -> Any:
    """Run a program's `patient` on this rank; its temporary folders lie in `folder`."""
    import torch.distributed as dist

    file = f"{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": name}
    tempfile.tempdir = folder
    rank, n = dist.get_rank(), dist.get_world_size()
    exec(compile(text, file, "exec"), space)
    return space["patient"](rank, n, **given(name, rank, n, case, port))


def outcomes(name: str, ranks: int = 3) -> list[Outcome]:
    """Run a patient on ranks, and return how each of them ended."""
    with tempfile.TemporaryDirectory() as folder:
        job = (name, program(name), 0, free_port(), folder)
        return run_ranks(on_rank, job, ranks=ranks, timeout=SECONDS)


def free_port() -> int:
    """Return a port of this machine that nobody has, nor the next four."""
    while True:
        port = random.randrange(15_000, 32_000, 5)  # below those that a system gives out itself
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for number in range(port, port + 5):
                held.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return port


def said(outcome: Outcome) -> str:
    """Say what a rank returned, or what it was doing when it was ended."""
    if outcome.status == "ok":
        return ", ".join(f"{key} {short(value)}" for key, value in outcome.value.items())
    if outcome.status == "error" and not outcome.peer_gone:
        first = outcome.message.strip().split(". ")[0].split("\n")[0]
        place = f" ({outcome.where.place})" if outcome.where and outcome.where.place else ""
        return f"raised {outcome.error}: {first[:80]}{place}"
    return doing(outcome)


def short(value: Any) -> str:
    """A value in a few words; a large tensor by its checksum, which is its sum."""
    if hasattr(value, "numel"):
        many = value.numel() > 12
        return f"checksum {value.sum().item():.4f}" if many else short(value.tolist())
    if isinstance(value, list):
        return "[" + ", ".join(short(one) for one in value) + "]"
    return str(value) if isinstance(value, (str, bool, int)) else f"{value:.4g}"


def examine(*names: str, ranks: int = 3) -> None:
    """Run patients, and print what each rank has to say."""
    for name in names:
        print(f"{name} on {ranks} rank{'s' * (ranks > 1)}")
        for outcome in outcomes(name, ranks=ranks):
            print(f"  rank {outcome.rank}: {said(outcome)}")
