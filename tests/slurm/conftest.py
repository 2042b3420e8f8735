"""A real Slurm of two nodes on this machine, started once for all tests of this folder."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from mini_cluster import PROJECT, Slurm

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster."""
    if not sys.platform.startswith("linux") or shutil.which("bash") is None:
        pytest.skip("Slurm needs Linux")
    folder = Path(tempfile.mkdtemp(prefix="dtlib-slurm-"))
    folder.chmod(0o755)  # munge wants its socket where all can reach it; pytest's folders are not
    started = subprocess.run(
        [HERE / "start_slurm.sh", folder], capture_output=True, text=True, timeout=120
    )
    try:
        if started.returncode == 69:
            pytest.skip(started.stderr.strip())
        assert started.returncode == 0, started.stdout + started.stderr
        yield {
            **os.environ,
            "SLURM_CONF": str(folder / "etc/slurm.conf"),
            "PYTHONPATH": str(PROJECT),
            "DTLIB_SITE": "/dev/null",  # not the settings of whoever runs the tests
        }
    finally:
        subprocess.run([HERE / "stop_slurm.sh", folder], timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm(cluster: dict[str, str], tmp_path: Path) -> Iterator[Slurm]:
    """The cluster, with a folder of its own for the test's jobs, none of which outlives it."""
    mine = Slurm(tmp_path, cluster)
    yield mine
    for number in mine.ids:
        mine.run("scancel", number, check=False)
        mine.until(lambda number=number: not mine.processes(number))
