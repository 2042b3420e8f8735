"""Exercise 10.2: which rank, which line, which kind of bug makes a program wrong in silence."""

from dtlib.learn.solutions import solution

from ..ward import SILENT, SILENT_KINDS
from . import diagnoses

# other lines that say the same of a patient
ALSO = {
    "p07": {7}, "p08": {6, 8}, "p09": {9, 12}, "p10": {11}, "p12": {10, 12, 13}, "p13": {14},
    "p14": {10, 12}, "p15": {14}, "p16": {11, 13, 14}, "p17": {11, 14},
}  # fmt: skip

diagnose_silent = solution("diagnose_silent", globals())

EXERCISE = diagnoses.exercise(diagnose_silent, SILENT, SILENT_KINDS, ALSO)
