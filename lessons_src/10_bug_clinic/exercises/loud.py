"""Exercise 10.1: which rank, which line, which kind of bug stops a program."""

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution

from ..ward import LOUD, LOUD_KINDS
from . import diagnoses

# other lines that say the same of a patient
ALSO = {"p01": {11}, "p02": {11, 14}, "p03": {7, 8, 12}, "p04": {14, 19}, "p06": {11}}

diagnose_loud = solution("diagnose_loud", globals())


def judge(got, want, patient):
    return diagnoses.judge(got, want, patient, ALSO)


EXERCISE = Answer(
    diagnose_loud,
    cases=[(f"patient {name}", (name,)) for name in LOUD],
    read=diagnoses.reader(LOUD_KINDS),
    judge=judge,
    other="form",  # never said: `judge` has a sentence for everything
)
