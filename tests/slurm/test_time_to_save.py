"""A job is warned that its time is up, and its ranks need longer to save than torchrun gives them.

Times are scaled down: torchrun's own half minute is 2 seconds, and a checkpoint takes 8.
"""

import pytest
from mini_cluster import SLOW_STEPS, Slurm, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SMALL = ("--steps=1000", "--global-batch=4", "--max-length=8", "--num-samples=64")
TIMES = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "2", "SLOW_SAVE": "8", **SLOW_STEPS}


def test_ranks_have_the_time_of_the_warning_to_save(slurm: Slurm) -> None:
    """What the scripts set gives them that time; with torchrun's own they lose their steps."""
    script = ("ddp_baseline.sbatch", "text", *SMALL)
    ours = slurm.script(*script, **TIMES)
    torchruns = slurm.script(*script, **TIMES, PET_SHUTDOWN_TIMEOUT="2")
    saved, lost = (slurm.folder / f"batch/dtlib-ddp-{number}/run" for number in (ours, torchruns))
    for number, run in ((ours, saved), (torchruns, lost)):
        slurm.until(lambda run=run: steps(run), number)
        slurm.run("scancel", "--batch", "--signal=USR1", number)
    for number in (ours, torchruns):
        slurm.until(lambda number=number: slurm.exit_codes(number))
    slurm.until(lambda: slurm.state(ours).startswith("PENDING"), ours)
    assert slurm.exit_codes(ours)[0] == "75", slurm.log(ours)
    last = len(steps(saved))
    assert (saved / "requeue").read_text() == f"stopped after step {last}\n"
    assert [path.name for path in (saved / "checkpoints").glob("step-*")] == [f"step-{last:08d}"]
    assert slurm.waited(torchruns).startswith("FAILED"), slurm.log(torchruns)  # by 1 or by 143
    assert not list(lost.glob("checkpoints/step-*"))
