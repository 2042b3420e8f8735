"""A node is lost while a run spans it: Slurm starts the job again, and the run goes on."""

import re

import pytest
from mini_cluster import SLOW_STEPS, Slurm, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
STEPS, EVERY = 120, 10  # at 0.2 s each, 20 s in which the node may be lost
FLAGS = (f"--steps={STEPS}", f"--checkpoint-every={EVERY}", "--global-batch=4", "--max-length=8",
         "--num-samples=64", "--deterministic")  # fmt: skip


def test_a_job_whose_node_is_lost_goes_on_or_says_so(slurm: Slurm) -> None:
    """Two jobs train when n2 loses its power; one of them may be started again."""
    script = ("ddp_baseline", "text", "--steps=5000", *FLAGS[2:])
    alone = slurm.submit(*script, "--", "--nodelist=n2", "--no-requeue", **SLOW_STEPS)
    # it trains before the other starts, which would not wait for it: its steps are few
    slurm.until(lambda: any(map(steps, slurm.folder.glob(f"batch/*-{alone}/run"))), alone)
    both = slurm.script("ddp_baseline.sbatch", "text", *FLAGS, **SLOW_STEPS)
    run = slurm.folder / f"batch/dtlib-ddp-{both}/run"
    slurm.until(lambda: len(steps(run)) > EVERY, both)
    with slurm.lost("n2"):
        slurm.until(lambda: "DOWN" in slurm.node("n2"))
        slurm.until(lambda: slurm.state(both).startswith("PENDING"))
        slurm.until(lambda: slurm.state(alone).startswith("NODE_FAIL"))
        stopped = len(steps(run))
        assert EVERY < stopped < STEPS
        assert f"{alone}  ddp_baseline  1      NODE_FAIL" in slurm.dtlib(
            "batch", "status", "--out=batch"
        )
    assert slurm.waited(both) == "COMPLETED 0:0", slurm.log(both)
    assert slurm.state(alone).startswith("NODE_FAIL")
    assert slurm.exit_codes(alone) == []
    assert slurm.exit_codes(both)[-1] == "0"
    # the last step may have been noted while its checkpoint was still being written
    resumed = re.findall(rf"Resuming {run} after step (\d+), from step-", slurm.log(both))
    assert len(resumed) == 1 and int(resumed[0]) in range(EVERY, stopped + 1, EVERY), resumed
    assert steps(run) == list(range(1, STEPS + 1))
