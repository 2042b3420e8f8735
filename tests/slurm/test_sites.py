"""What differs from site to site: shares of a node, arrays, what srun's tasks are given."""

import re
import sys

import pytest
from mini_cluster import PROJECT, Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HEAD = f"""#!/bin/bash
#SBATCH --output=%x-%A_%a.log
#SBATCH --open-mode=append
export DTLIB_HOME={PROJECT} DTLIB_PYTHON={sys.executable} DTLIB_SITE=/dev/null
export DTLIB_BATCH_OUT=$PWD/batch
. "$DTLIB_HOME/slurm/common.sh"
"""
TASKS = f"""{HEAD}
echo "task $SLURM_ARRAY_TASK_ID starts $restart"
if [ "$SLURM_ARRAY_TASK_ID" = 0 ]; then supervise true; finish "$code"; fi
if [ "$restart" = 1 ]; then touch again; finish 0; fi
supervise bash -c 'until [ -e again ]; do sleep 0.2; done' &
work=$!
trap 'kill "$work"; finish 75' USR1
wait "$work"
finish 0
"""
NAKED = f"""{HEAD}
export OF_SITE_ENV=1
cd /
srun "$python" -c 'import os, dtlib; print("in the step:", os.environ.get("OF_SITE_ENV"))'
"""


def test_a_requeue_starts_one_task_of_an_array_again(slurm: Slurm) -> None:
    """The last task has the array's own number: by it, Slurm would start all of them again."""
    (slurm.folder / "tasks.sbatch").write_text(TASKS)
    number = slurm.sbatch("--array=0-2", "--requeue", "--mem=1G", "tasks.sbatch")
    first, last = f"*-{number}_0.log", f"*-{number}_2.log"
    slurm.until(lambda: "ended with exit code 0" in said(slurm, first))
    slurm.until(lambda: "starts 0" in said(slurm, last))
    slurm.run("scancel", "--batch", "--signal=USR1", f"{number}_2")
    slurm.until(lambda: slurm.over(number))
    starts = {
        task: re.findall(r"starts (\d)", said(slurm, f"*-{number}_{task}.log")) for task in range(3)
    }
    assert starts == {0: ["0"], 1: ["0"], 2: ["0", "1"]}, slurm.log(number)


def said(slurm: Slurm, pattern: str) -> str:
    return "".join(path.read_text() for path in slurm.folder.glob(pattern))


def test_a_step_has_the_environment_after_export_none(slurm: Slurm) -> None:
    (slurm.folder / "naked.sbatch").write_text(NAKED)
    number = slurm.sbatch("--export=NONE", "--mem=1G", "naked.sbatch")
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    assert "in the step: 1" in slurm.log(number)


def test_ranks_that_outnumber_the_cpus_run_and_are_told_of(slurm: Slurm) -> None:
    """Where a site gives a node's task one CPU, srun refused a task for each of two GPUs."""
    program = slurm.folder / "nsys"
    program.write_text('#!/bin/bash\necho "task $SLURM_PROCID:" "$@"\n')
    program.chmod(0o755)
    options = ("--gpus-per-node=2", "--cpus-per-task=1")
    path = f"{slurm.folder}:{slurm.env['PATH']}"
    number = slurm.script("profile_nsys.sbatch", "text", options=options, PATH=path)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    log = slurm.log(number)
    assert "2 ranks share 1 CPU(s) of each node; ask for more: sbatch --cpus-per-task=16" in log
    assert set(re.findall(r"^task (\d): prof", log, re.MULTILINE)) == set("0123")
