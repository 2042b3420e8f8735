"""Exercise 10.1: which rank, which line, which kind of bug stops a program."""

from dtlib.learn.solutions import solution

from ..ward import LOUD, LOUD_KINDS
from . import diagnoses

# other lines that say the same of a patient
ALSO = {
    "p01": {11}, "p02": {11, 14}, "p03": {7, 11}, "p04": {14, 19},
    "p06": {10, 11, 12, 13},
}  # fmt: skip

diagnose_loud = solution("diagnose_loud", globals())

EXERCISE = diagnoses.exercise(diagnose_loud, LOUD, LOUD_KINDS, ALSO)
