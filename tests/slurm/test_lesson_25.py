"""Lesson 25 on a real Slurm, and its practice cluster beside one."""

import os
import subprocess
import sys

import pytest
from mini_cluster import Slurm

from dtlib.learn import rooms, source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

practice_cluster = rooms.module(source.find("25"), "practice_cluster")
# Where Slurm is busy, srun says that it retries and that the step is there at last.
BUSY = ("srun: Job ", "srun: Step created for")
WHO = """#!/bin/bash
echo "script $SLURM_NODEID $SLURM_PROCID $SLURM_LOCALID $SLURM_JOB_NODELIST $(hostname)"
srun echo "early $SLURM_NODEID"
srun bash -c 'echo "there $SLURM_NODEID $SLURM_PROCID $SLURM_LOCALID $SLURM_NNODES $(hostname)"'
srun -N 2 -n 4 bash -c 'echo "four $SLURM_NODEID $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS"'
scontrol show hostnames "$SLURM_JOB_NODELIST"
"""


def test_a_script_prints_the_same_on_both(slurm: Slurm) -> None:
    path = slurm.folder / "who.sbatch"
    path.write_text(WHO)
    number = slurm.sbatch("--nodes=2", "--ntasks-per-node=2", "--output=who-%j.log", str(path))
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    practised = practice_cluster.run(WHO.replace("srun ", "srun --ntasks-per-node=2 "), nodes=2)
    lines = slurm.log(number).splitlines()
    real = [line for line in lines if not line.startswith(BUSY)]
    assert sorted(real) == sorted(practised.output.splitlines())


def test_the_lesson_runs_its_jobs_here(slurm: Slurm) -> None:
    command = [sys.executable, "-m", "dtlib", "lessons", "run", "25", "--kind", "instructor"]
    done = subprocess.run(
        [*command, "--out", str(slurm.folder / "out")], env={**os.environ, **slurm.env},
        cwd=slurm.folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (notebook,) = (slurm.folder / "out").rglob("25*.ipynb")
    said = notebook.read_text()
    assert "A real Slurm." in said and "Recorded results." not in said
