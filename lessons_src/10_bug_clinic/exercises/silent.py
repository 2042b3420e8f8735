"""Exercise 10.2: which rank, which line, which kind of bug makes a program wrong in silence."""

from dtlib.learn.solutions import solution

from ..ward import SILENT, SILENT_KINDS
from . import diagnoses

# other lines that say the same of a patient
ALSO = {
    "p07": {7}, "p08": {6, 8}, "p09": {8, 9, 11, 12}, "p10": {11}, "p12": {7, 9, 11, 12},
    "p13": {13}, "p14": {9, 10, 12, 13}, "p15": {14}, "p16": {9, 11, 12}, "p17": {9, 12},
}  # fmt: skip

diagnose_silent = solution("diagnose_silent", globals())

EXERCISE = diagnoses.exercise(diagnose_silent, SILENT, SILENT_KINDS, ALSO)
