"""`survive`: a batch script that is warned of its time limit, saves, and requeues its job."""

import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .. import practice_cluster
from ..practice_cluster import JOB, Training
from .scripts import misread, text_of

LIFE = 3.0
# bash's exit codes; SIGUSR1 has another number on macOS than on Linux.
KILLED, BY_THE_SIGNAL = 128 + signal.SIGKILL, 128 + signal.SIGUSR1


def _kills_nobody(script, ended):
    """Whether kill got no number, though the script started something in the background."""
    return "kill: usage" in ended.output and bool(re.search(r"(?<![&>])&(?![&>\d])", script))


def _well(ended):
    if ended.code is None and ended.when("end") is None:
        raise Wrong("never_got_there", seconds=practice_cluster.SECONDS)
    if ended.code is None:
        raise Wrong("never_ends", how="ended by itself", seconds=practice_cluster.AFTER)
    if ended.when("ready") is None:
        said = ended.output.strip().splitlines()
        raise Wrong("never_trained", says=said[-1].rstrip(".?") if said else "nothing")
    if ended.when("end") is None or ended.when("over") < ended.when("end"):
        raise Wrong("left_alone")
    if ended.when("requeue") is not None:
        raise Wrong("for_ever")
    if ended.code:
        raise Wrong("code_of_success", got=ended.code)


def _failed(ended):
    if ended.code is None:
        raise Wrong("never_ends", how="failed with exit code 3", seconds=practice_cluster.AFTER)
    if ended.when("requeue") is not None:
        raise Wrong("repeats_failure")
    if ended.code == 0:
        raise Wrong("code_lost")
    if ended.code != 3:
        raise Wrong("other_code", got=ended.code)


def _killed(ended):
    if ended.code is None:
        raise Wrong("never_ends", how="was killed", seconds=practice_cluster.AFTER)
    if ended.when("requeue") is not None:
        raise Wrong("repeats_failure")
    if ended.code != KILLED:
        raise Wrong("killed_code", got=ended.code, want=KILLED)


def _told(ended):
    told, saved, over = ended.when("told"), ended.when("checkpoint"), ended.when("over")
    if told is None:
        if ended.when("end") is not None:
            raise Wrong("too_late", seconds=round(ended.when("end") or 0.0, 1))
        died = ended.killed and ended.code == BY_THE_SIGNAL
        raise Wrong("script_died" if died else "not_told", code=ended.code)
    requeued = ended.when("requeue")
    if requeued is not None and (saved is None or requeued < saved):
        raise Wrong("requeued_early", at=round(requeued, 2))
    if saved is None or (over is not None and over < saved):
        raise Wrong("did_not_wait", at=round(over or 0.0, 2))
    if ended.code is None:
        raise Wrong("never_ends", how="saved", seconds=practice_cluster.AFTER)
    if requeued is None:
        of_wait = ended.code == BY_THE_SIGNAL
        raise Wrong("code_of_wait" if of_wait else "not_requeued", code=ended.code)
    asked = [what for _, what in ended.events if what.startswith("requeue")]
    if asked[0] != f"requeue {JOB}":
        raise Wrong("which_job", got=asked[0], job=JOB)
    if len(asked) > 1:
        raise Wrong("twice", count=len(asked))
    if ended.code != 75:
        raise Wrong("code_after", code=ended.code)


def _done(ended):
    """The training was told in its last step, and ended with 0."""
    if ended.when("requeue") is not None:
        raise Wrong("told_is_not_75")
    if ended.code is None:
        raise Wrong("never_ends", how="saved", seconds=practice_cluster.AFTER)
    if ended.code != 0:
        raise Wrong("code_of_success", got=ended.code)


# What may happen to a job. All trials run at once, because each of them waits and computes nothing.
TRIALS = (
    ("a training that ends well", Training(life=0.2), _well),
    ("a training that fails with exit code 3", Training(life=0.2, code=3), _failed),
    ("a training that is killed", Training(life=0.2, code=-9), _killed),
    ("a job that is told to stop", Training(life=LIFE, told=True), _told),
    ("a job that is told, and saves for 1.3 seconds",
     Training(life=LIFE, told=True, saving=1.3), _told),
    ("a job that is told in its last step", Training(life=LIFE, told=True, ends=0), _done),
    ("a job that is told twice", Training(life=LIFE, told=True, twice=True, saving=0.6), _told),
)  # fmt: skip
TOLD = 3  # the trial whose times are shown


def read(script):
    """Run the script with all trainings; return the seconds from the signal to the checkpoint."""
    text, stop, found = text_of(script), threading.Event(), []
    with ThreadPoolExecutor(len(TRIALS)) as pool:
        runs = [pool.submit(practice_cluster.train, text, trial[1], stop) for trial in TRIALS]
        try:
            for (case, _, judge), run in zip(TRIALS, runs, strict=True):
                found.append(run.result())
                _judged(text, case, judge, found[-1])
        finally:
            stop.set()  # after the first wrong one, the others are not needed
    return found[TOLD].when("checkpoint")


def _judged(text, case, judge, ended):
    try:
        judge(ended)
    except Wrong as wrong:
        wrong.case = case
        if wrong.mistake != "never_trained" and (says := misread(ended.output)):
            raise Wrong("misread", case, says=says) from None
        if wrong.mistake in ("not_told", "too_late") and _kills_nobody(text, ended):
            raise Wrong("no_number", case) from None
        raise


EXERCISE = Answer(
    solution("survive", globals()),
    read=read,
    alone=True,
    cases=[("what the function returns", ())],
    other="unrecognised",
    passed=lambda got: Passed(
        (("from the signal to the checkpoint", round(got[0], 2), 0.2, "s"),),
        "The checkpoint itself takes 0.2 s of that.",
    ),
)
