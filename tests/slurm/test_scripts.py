"""The shell scripts of the cluster: they parse, and shellcheck has nothing to say."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from mini_cluster import PROJECT

SCRIPTS = sorted(
    path
    for folder in ("slurm", "tests/slurm")
    for path in (PROJECT / folder).iterdir()
    if path.suffix in (".sh", ".sbatch", ".example")
)


@pytest.mark.parametrize("tool", [["bash", "-n"], ["shellcheck", "-x"]], ids=lambda words: words[0])
def test_scripts_are_clean(tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"there is no {tool[0]} here")
    assert len(SCRIPTS) == 6
    for script in SCRIPTS:
        done = subprocess.run([*tool, script], cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_node_knows_its_number_when_torchrun_starts() -> None:
    """Expanded where the job is submitted or in the batch script, every node would be node 0."""
    text = (PROJECT / "slurm/ddp_baseline.sbatch").read_text()
    assert "--ntasks-per-node=1" in text
    assert """'exec "$0" -m torch.distributed.run --node-rank="$SLURM_NODEID" "$@"'""" in text
