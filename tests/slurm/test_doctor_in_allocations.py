"""`dtlib doctor --nodes` on a real Slurm: what is well, and what keeps ranks apart."""

import json
import sys
from typing import Any

import pytest
from mini_cluster import Slurm

from dtlib import __version__

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
DOCTOR = f"{sys.executable} -m dtlib doctor --nodes"


def told(slurm: Slurm, state: str, command: str = DOCTOR, **env: str) -> str:
    """Run the doctor on two nodes; return what it printed, when the job ended as expected."""
    number = slurm.sbatch("--nodes=2", "--output=doctor.log", f"--wrap={command}", **env)
    ended = slurm.waited(number)
    log = (slurm.folder / "doctor.log").read_text()
    assert ended == state, log
    slurm.until(lambda: not slurm.processes(number))
    assert "Traceback" not in log
    assert not list(slurm.folder.glob(".dtlib-doctor-*"))
    return log


def by_name(findings: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {finding["name"]: finding for finding in findings}


def test_two_nodes_on_which_all_is_well(slurm: Slurm) -> None:
    said: dict[str, Any] = json.loads(told(slurm, "COMPLETED 0:0", f"{DOCTOR} --json"))
    assert said["ready"]
    assert [node["host"] for node in said["nodes"]] == ["n1", "n2"]
    for node in said["nodes"]:
        # Both nodes have the clock of this one machine.
        assert abs(node["offset_s"]) <= node["within_s"]
        assert node["dtlib"] == __version__
        assert node["commit"] == said["nodes"][0]["commit"]
    found = by_name(said["findings"])
    assert {finding["state"] for finding in found.values()} == {"ok"}
    assert found["collective"]["found"].startswith("ranks 1 on n1, 1 on n2 summed in ")
    assert str(slurm.folder) in found["shared folder"]["found"]


@pytest.mark.parametrize(("address", "says"), [
    ("127.0.0.1", "MASTER_ADDR=127.0.0.1 is a loopback address: on it each host"),
    ("myself", "MASTER_ADDR=myself means 127.0.1.1, which is a loopback address: on it each host"),
    ("n3", "n1: n3 port"),  # nobody has this address
])  # fmt: skip
def test_an_address_at_which_ranks_never_meet(slurm: Slurm, address: str, says: str) -> None:
    log = told(slurm, "FAILED 69:0", MASTER_ADDR=address)
    assert says in log
    assert "→ set MASTER_ADDR to a name or address of n1 that all nodes reach" in log
    assert "Lessons cannot run over these nodes yet: rendezvous." in log
    assert "collective" not in log  # not tried where ranks cannot meet


def test_a_folder_that_only_one_node_has(slurm: Slurm) -> None:
    """Each node has mounts of its own, so that n1 can see something else at the same path."""
    private = slurm.folder / "private"
    private.mkdir()
    (slurm.folder / "job.sh").write_text(
        f"mount -t tmpfs none {private}; DTLIB_BATCH_OUT={private} {DOCTOR}; code=$?\n"
        f"umount {private}; exit $code\n"
    )
    log = told(slurm, "FAILED 69:0", "bash job.sh")
    assert f"{private} on n2: No such file or directory" in log
    assert "→ start in a folder that all nodes share, or set DTLIB_BATCH_OUT to one" in log
    assert "Lessons cannot run over these nodes yet: shared folder." in log
