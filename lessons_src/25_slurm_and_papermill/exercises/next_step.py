"""`next_step`: what to do about a job that has ended, from what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dtlib.learn.checking import Passed, Verdict, Wrong, stopped_here

ANSWERS = ("done", "again", "mend")


@dataclass(frozen=True)
class Job:
    """What is known of a job that has ended.

    Attributes
    ----------
    state
        As Slurm says it: COMPLETED, FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY …
    exit_code
        Of its script; 75 is "stopped with a checkpoint".
    step, began_at, steps
        How far the training came, where this start of it began, and how many steps it should do.
    ran, cells
        How many cells of its notebook ran, of how many.
    """

    state: str
    exit_code: int
    step: int
    began_at: int
    steps: int
    ran: int
    cells: int


# Each with the key of the sentence for a wrong answer to it.
JOBS = (
    ("all_well", Job("COMPLETED", 0, 500, 0, 500, 12, 12), "done"),
    ("all_well", Job("COMPLETED", 0, 500, 300, 500, 12, 12), "done"),
    ("a_bug", Job("FAILED", 1, 120, 0, 500, 7, 12), "mend"),
    ("a_bug", Job("FAILED", 2, 120, 0, 500, 7, 12), "mend"),
    ("code_lost", Job("COMPLETED", 0, 120, 0, 500, 7, 12), "mend"),
    ("one_cell", Job("COMPLETED", 0, 500, 0, 500, 11, 12), "mend"),
    ("asked_for_it", Job("FAILED", 75, 300, 0, 500, 7, 12), "again"),
    ("lost_node", Job("NODE_FAIL", 1, 200, 0, 500, 7, 12), "again"),
    ("timed_out", Job("TIMEOUT", 0, 200, 0, 500, 7, 12), "again"),
    ("preempted", Job("PREEMPTED", 0, 200, 100, 500, 7, 12), "again"),
    ("no_memory", Job("OUT_OF_MEMORY", 137, 40, 0, 500, 7, 12), "mend"),
    ("circle", Job("TIMEOUT", 0, 200, 200, 500, 7, 12), "mend"),
    ("asked_in_circles", Job("FAILED", 75, 300, 300, 500, 7, 12), "mend"),
)  # fmt: skip


def reference(job: Job) -> str:
    """ "done", "again" (run it on from its checkpoint) or "mend" (look at it first)."""
    whole = job.step >= job.steps and job.ran == job.cells
    if job.state == "COMPLETED" and job.exit_code == 0:
        return "done" if whole else "mend"
    from_outside = job.state in ("TIMEOUT", "NODE_FAIL", "PREEMPTED") or job.exit_code == 75
    return "again" if from_outside and job.step > job.began_at else "mend"


def check(function: Callable[[Job], Any]) -> Verdict:
    """Ask about thirteen jobs."""
    for key, job, want in JOBS:
        case = f"{job.state}, exit code {job.exit_code}, step {job.step} of {job.steps}"
        try:
            got = function(job)
        except Exception as error:
            if "not subscriptable" in str(error):
                raise Wrong("no_dict", case) from None
            raise stopped_here(error, case) from None
        if got is None:
            raise Wrong("none", case)
        if not isinstance(got, str) or got not in ANSWERS:
            raise Wrong("word", case, got=got)
        if got != want:
            raise Wrong(key, case, got=got, step=job.step, began=job.began_at, steps=job.steps,
                        ran=job.ran, cells=job.cells, state=job.state,
                        code=job.exit_code)  # fmt: skip
    return Passed(measures=(("jobs judged", len(JOBS), len(JOBS), "jobs"),))
