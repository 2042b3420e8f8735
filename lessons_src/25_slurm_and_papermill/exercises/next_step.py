"""`next_step`: what to do about a job that has ended, from what is known of it."""

from dataclasses import dataclass

from dtlib.learn.answers import Answer
from dtlib.learn.readers import one_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong


@dataclass(frozen=True)
class Job:
    """What is known of a job that has ended.

    Attributes
    ----------
    state
        Slurm's word: COMPLETED, FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY …
    exit_code
        Of the job's script; 75 is "stopped with a checkpoint".
    step, began_at, steps
        How far the training got, where this start of it began, and how many steps it should do.
    ran, cells
        How many cells of the job's notebook ran, and how many there are.
    """

    state: str
    exit_code: int
    step: int
    began_at: int
    steps: int
    ran: int
    cells: int

    def __getitem__(self, name):
        raise Wrong("no_dict")


def case(key, *known):
    """A job, and the key of the sentence for a wrong answer about it."""
    job = Job(*known)
    label = f"{job.state}, exit code {job.exit_code}, step {job.step} of {job.steps}"
    return label, (job,), key


EXERCISE = Answer(
    solution("next_step", globals()),
    read=one_of(("done", "again", "mend"), "word"),
    cases=[
        case("all_well", "COMPLETED", 0, 500, 0, 500, 12, 12),
        case("all_well", "COMPLETED", 0, 500, 300, 500, 12, 12),
        case("a_bug", "FAILED", 1, 120, 0, 500, 7, 12),
        case("a_bug", "FAILED", 2, 120, 0, 500, 7, 12),
        case("code_lost", "COMPLETED", 0, 120, 0, 500, 7, 12),
        case("too_few_steps", "COMPLETED", 0, 120, 0, 500, 12, 12),
        case("one_cell", "COMPLETED", 0, 500, 0, 500, 11, 12),
        case("asked_for_it", "FAILED", 75, 300, 0, 500, 7, 12),
        case("lost_node", "NODE_FAIL", 1, 200, 0, 500, 7, 12),
        case("timed_out", "TIMEOUT", 0, 200, 0, 500, 7, 12),
        case("preempted", "PREEMPTED", 0, 200, 100, 500, 7, 12),
        case("no_memory", "OUT_OF_MEMORY", 137, 40, 0, 500, 7, 12),
        case("circle", "TIMEOUT", 0, 200, 200, 500, 7, 12),
        case("asked_in_circles", "FAILED", 75, 300, 300, 500, 7, 12),
    ],
    other="unrecognised",
    facts=lambda job: {**vars(job), "began": job.began_at, "code": job.exit_code},
    passed=lambda got: Passed((("jobs judged", len(got), 14, "jobs"),)),
)
