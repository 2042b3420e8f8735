"""What the command line prints about a finished run, and about an error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput, DtlibError, counted

if TYPE_CHECKING:
    from dtlib.training.record import Run


def describe(run: Run) -> str:
    """Return a summary of a finished run in a few lines."""
    summary = run.summary
    lines = dict(summary.get("evaluation") or {})
    if summary.get("throughput"):
        steps = f"median of {counted(summary['timed_steps'], 'step')}"
        lines["speed"] = f"{summary['throughput']:.4g} {summary['throughput_unit']} ({steps})"
    lines["records"] = str(run.folder)
    width = max(map(len, lines))
    head = f"done: {counted(summary.get('steps', len(run.history)), 'step')}, loss {run.loss:.6g}"
    return "\n".join([head, *(f"  {key:<{width}}  {_say(lines[key])}" for key in lines)])


def _say(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def explain(error: DtlibError) -> None:
    """Print what went wrong in one sentence, and a failed rank's traceback below it."""
    rank = own_rank()
    if rank and isinstance(error, BadInput):
        # Rank 0 prints the same; if this rank ended first, torchrun would end rank 0 before it did.
        time.sleep(5.0)
        return
    who = f"dtlib: rank {rank}" if rank else "dtlib"
    print(f"{who}: {error}", file=sys.stderr)
    traceback = getattr(error, "traceback", "")
    if traceback and traceback not in str(error):
        print(traceback.rstrip(), file=sys.stderr)


def own_rank() -> int:
    """Return the rank that torchrun or srun gave to this process; 0 if it was started by hand."""
    from dtlib.ranks.dist import environment_world

    try:
        there = environment_world()
    except BadInput:  # the variables contradict each other, which every rank reports
        return 0
    return there.rank if there else 0
