"""What two runs left: one that hung under torchrun, in `hung/`, and one that ended, in `job/`.

`hung/` is what `dtlib clinic record` kept of four ranks on gloo, torch 2.14; it was recorded by
tests/fixtures/clinic/make.py: programs/evaluation.py. `job/` has the output of patient p05 as job 2
of a Slurm 22.05 of two nodes on one machine (tests/slurm/start_slurm.sh), and the two files that
were beside p05.py when `sbatch p05.sbatch` submitted it.
"""

from __future__ import annotations

from pathlib import Path

from dtlib.measure.clinic import evidence, verdict
from dtlib.measure.clinic.dumps import Call

FOLDER = Path(__file__).parent / "hung"
JOB = Path(__file__).parent / "job" / "slurm-2.out"


def hung() -> verdict.Report:
    """Return what the clinic says of the records."""
    return verdict.examine(evidence.gather([FOLDER]))


def calls() -> dict[int, tuple[Call, ...]]:
    """Return the collectives of each rank, in order."""
    ranks = evidence.gather([FOLDER]).ranks
    return {number: rank.dump.calls for number, rank in sorted(ranks.items()) if rank.dump}


def job_output() -> None:
    """Print what the job of patient p05 wrote."""
    print(JOB.name)
    print(JOB.read_text(encoding="utf-8"))
