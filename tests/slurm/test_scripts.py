"""The shell scripts of the cluster: they parse, shellcheck is content, and Slurm takes them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mini_cluster import PROJECT, Slurm

from dtlib.cluster.batch.launching import SIGNALS

SCRIPTS = sorted(
    path
    for folder in ("slurm", "tests/slurm")
    for path in (PROJECT / folder).iterdir()
    if path.suffix in (".sh", ".sbatch", ".example")
)
BATCH = [path for path in SCRIPTS if path.suffix == ".sbatch"]
SOURCE = '. "${DTLIB_HOME:-$SLURM_SUBMIT_DIR}/slurm/common.sh"\n'
names = pytest.mark.parametrize("script", BATCH, ids=lambda path: path.stem)


@pytest.mark.parametrize("tool", [["bash", "-n"], ["shellcheck", "-x"]], ids=lambda words: words[0])
def test_scripts_are_clean(tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"there is no {tool[0]} here")
    assert len(SCRIPTS) == 14
    for script in SCRIPTS:
        done = subprocess.run([*tool, script], cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_node_knows_its_number_when_torchrun_starts() -> None:
    """Expanded where the job is submitted or in the batch script, every node would be node 0."""
    text = (PROJECT / "slurm/ddp_baseline.sbatch").read_text()
    assert "--ntasks-per-node=1" in text
    assert """'exec "$0" -m torch.distributed.run --node-rank="$SLURM_NODEID" "$@"'""" in text


@names
def test_every_batch_script_can_be_stopped_and_started_again(script: Path) -> None:
    """The signal before the time limit, the requeue, and a log that the next start goes on with."""
    head, _, body = script.read_text().partition(SOURCE)
    assert body, "it sources common.sh"
    directives = set(re.findall(r"^#SBATCH (\S+)", head, re.MULTILINE))
    wanted = {"--signal=B:USR1@120", "--requeue", "--open-mode=append", "--ntasks-per-node=1"}
    wanted |= {"--cpus-per-task=8", "--mem=32G"}  # else a site may give one CPU to all ranks
    assert wanted <= directives
    assert re.search(r"--array=" if "%A_%a" in head else r"--output=%x-%j\.log", head)


def test_launchers_hand_on_the_warning_and_leave_time_to_save() -> None:
    """torchrun's own half minute is too short; accelerate hears of these by PET_ alone."""
    ask = (
        "from torch.distributed.run import get_args_parser as p; a = p().parse_args(['x']);"
        "print(a.shutdown_timeout, a.signals_to_handle)"
    )
    command = f'home={PROJECT}; . slurm/environment.sh; exec {sys.executable} -c "{ask}"'
    done = subprocess.run(
        ["bash", "-euc", command], cwd=PROJECT, capture_output=True, text=True,
        env={**os.environ, "DTLIB_SITE": "/dev/null"},
    )  # fmt: skip
    seconds, signals = done.stdout.split()
    assert (seconds, f"--signals-to-handle={signals}") == ("100", SIGNALS), done.stderr


@pytest.mark.slow
@names
def test_slurm_would_run_it(slurm: Slurm, script: Path) -> None:
    """As it is, and on all that the cluster has; one GPU more is refused."""
    for options in ([], ["--nodes=2", "--gpus-per-node=2", "--cpus-per-task=8"]):
        said = slurm.run("sbatch", "--test-only", *options, str(script), "text")
        assert re.search(r"Job \d+ to start at", said), said
    said = slurm.run("sbatch", "--test-only", "--gpus-per-node=3", str(script), check=False)
    assert "Requested node configuration is not available" in said
    assert slurm.run("squeue", "-h") == ""
