"""More answers to `next_step`, for the tests alone."""

from ..exercises.next_step import EXERCISE

next_step = EXERCISE.reference


def silent(job):
    if job.state == "FAILED":
        return "mend"


def restarts_all(job):
    return "done" if job.state == "COMPLETED" and job.step == job.steps else "again"


def but(word, which):
    """One word for jobs of a kind; of the others it is right."""
    return lambda job: word if which(job) else next_step(job)


def of(word, state):
    return but(word, lambda job: job.state == state)


# Right.
def by_facts(job):
    if (job.state, job.exit_code) == ("COMPLETED", 0):
        return "done" if (job.step, job.ran) == (job.steps, job.cells) else "mend"
    outside = job.exit_code == 75 or job.state in {"TIMEOUT", "NODE_FAIL", "PREEMPTED"}
    return "again" if outside and job.began_at < job.step else "mend"


def by_lists(job):
    if job.state == "COMPLETED":
        whole = job.step >= job.steps and job.ran >= job.cells and not job.exit_code
        return ("mend", "done")[whole]
    if job.step <= job.began_at or job.state == "OUT_OF_MEMORY":
        return "mend"
    return "mend" if job.state == "FAILED" and job.exit_code != 75 else "again"


ALSO_WRONG = [
    ("none", silent),
    ("no_dict", lambda job: "done" if job["state"] == "COMPLETED" else "mend"),
    ("word", lambda job: job.state == "COMPLETED"),
    ("all_well", but("mend", lambda job: job.began_at and job.step == job.steps)),
    ("a_bug", restarts_all),
    ("code_lost", of("done", "COMPLETED")),
    ("too_few_steps", but("done", lambda job: job.exit_code == 0 and job.ran == job.cells)),
    ("one_cell", but("done", lambda job: job.step >= job.steps)),
    ("asked_for_it", of("mend", "FAILED")),
    ("lost_node", of("mend", "NODE_FAIL")),
    ("timed_out", of("mend", "TIMEOUT")),
    ("preempted", of("mend", "PREEMPTED")),
    ("no_memory", of("again", "OUT_OF_MEMORY")),
    ("circle", of("again", "TIMEOUT")),
    ("asked_in_circles", but("again", lambda job: job.exit_code == 75)),
]
ALSO_RIGHT = [by_facts, by_lists]
