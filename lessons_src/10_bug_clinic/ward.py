"""The ward of lesson 10: its patients, how one is seen by a doctor, and what it does when cured."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

from dtlib.ranks.launcher import run_ranks
from dtlib.ranks.outcome import Outcome, doing

FOLDER = Path(__file__).parent / "patients"
LOUD = tuple(f"p{number:02}" for number in range(1, 7))
SILENT = tuple(f"p{number:02}" for number in range(7, 18))
SECONDS = 3.0  # that a rank waits for others before it is ended: nothing here waits longer

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


def program(name: str) -> str:
    """Return the text of a patient's program."""
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def show(*names: str) -> None:
    """Print programs with line numbers."""
    for name in names:
        print(f"{name}.py")
        for number, line in enumerate(program(name).splitlines(), 1):
            print(f"{number:3}  {line}")
        print()


def treated(name: str, cure: dict[int, str]) -> str:
    """Return a patient's program with other text for some lines, in the indentation of each."""
    lines = program(name).splitlines()
    for number, text in cure.items():
        old = lines[number - 1]
        indent = old[: len(old) - len(old.lstrip())]
        lines[number - 1] = "\n".join(indent + line for line in text.splitlines())
    return "\n".join(lines) + "\n"


def on_rank(name: str, text: str) -> Any:
    """Run a program's `patient` on this rank."""
    import torch.distributed as dist

    file = f"{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": name}
    exec(compile(text, file, "exec"), space)
    return space["patient"](dist.get_rank(), dist.get_world_size())


def outcomes(name: str, text: str | None = None, ranks: int = 3) -> list[Outcome]:
    """Run a patient on ranks, and return how each of them ended."""
    return run_ranks(on_rank, (name, text or program(name)), ranks=ranks, timeout=SECONDS)


def said(outcome: Outcome) -> str:
    """Say what a rank returned, or what it was doing when it was ended."""
    if outcome.status == "ok":
        return ", ".join(f"{key} {_short(value)}" for key, value in outcome.value.items())
    if outcome.status == "error" and not outcome.peer_gone:
        first = outcome.message.strip().split(". ")[0].split("\n")[0]
        place = f" ({outcome.where.place})" if outcome.where else ""
        return f"raised {outcome.error}: {first[:80]}{place}"
    return doing(outcome)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_short(one) for one in value) + "]"
    return f"{value:.4g}"


def examine(*names: str, ranks: int = 3) -> None:
    """Run patients, and print what each rank has to say."""
    for name in names:
        print(f"{name} on {ranks} ranks")
        for outcome in outcomes(name, ranks=ranks):
            print(f"  rank {outcome.rank}: {said(outcome)}")
