"""Ranks that torchrun or srun started: `launch` joins them in place, and starts none."""

import os
import subprocess
import sys
from pathlib import Path

from processes import free_port, python
from scripts import HERE, run_script
from torch.distributed import TCPStore

from dtlib.ranks.environment import EnvWorld

TORCHRUN = """
import sys
import rank_functions
from dtlib import BadInput, launch
results = launch(rank_functions.place, threads=3)
assert [r[0] for r in results] == [0, 1], results
assert sys.modules["torch"].get_num_threads() == 3
assert launch(rank_functions.add_up, 1.0, ranks=2) == [[11.0]] * 2
try:
    launch(rank_functions.pid, ranks=3)
except BadInput as error:
    sys.stdout.write(f"{error}\\n")
"""

TORCHRUNS = ("TORCHELASTIC_", *EnvWorld(0, 0, 1, 1, 0, "", 0, "").variables())


def test_torchrun_is_joined_in_place(tmp_path: Path) -> None:
    run = run_script(
        tmp_path, TORCHRUN, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("ranks=3 contradicts the world of 2") == 2
    assert "FutureWarning" not in run.stderr


def test_srun_is_joined_in_place(tmp_path: Path) -> None:
    """Two processes with the variables of a Slurm step on one host, as srun starts them."""
    (tmp_path / "script.py").write_text(TORCHRUN)
    port = str(free_port())
    step = {
        "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "n1", "SLURM_JOB_ID": "7", "MASTER_PORT": port,
    }  # fmt: skip
    # torchrun's own variables would win, if something had left them in this process
    own = {name: value for name, value in os.environ.items() if not name.startswith(TORCHRUNS)}
    tasks = [
        subprocess.Popen(
            [sys.executable, "script.py"], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**own, **step, "PYTHONPATH": str(HERE), "SLURM_PROCID": task,
                 "SLURM_LOCALID": task},
        )
        for task in "01"
    ]  # fmt: skip
    for task in tasks:  # longer than a rank waits for the others, and says for whom
        out, _ = task.communicate(timeout=150)
        assert task.returncode == 0, out
        assert "ranks=3 contradicts the world of 2" in out


LATE = """
from dtlib.ranks import dist
from dtlib.ranks.environment import environment_world
from dtlib.errors import DtlibError
try:
    dist.join(environment_world(), "cpu", timeout=1)
except DtlibError as error:
    print(error)
"""


def late(folder: Path, rank: int, port: int, **more: str) -> str:
    """What one rank of two says when the other one never comes."""
    (folder / "script.py").write_text(LATE)
    world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
    run = python(
        "script.py", cwd=folder, env={**os.environ, **world, "DTLIB_START_LIMIT": "3"} | more
    )
    assert not run.returncode, run.stderr
    return str(run.stdout)


def said_of(rank: int, port: int, who: str) -> str:
    return (
        f"Rank {rank} waited 3 s at 127.0.0.1:{port} for all 2 ranks: {who} is still loading "
        "Python's files (DTLIB_START_LIMIT=600 waits longer), has ended, or does not reach "
        "that address.\n"
    )


def test_a_rank_that_has_not_come_yet_is_waited_for_and_then_named(tmp_path: Path) -> None:
    """It never starts: it might still load its modules, so no network is blamed."""
    port = free_port()
    assert late(tmp_path, 0, port) == said_of(0, port, "another rank")
    # torchrun's agent is the server, and lets each rank in at once
    agent = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    found = late(tmp_path, 1, agent.port, TORCHELASTIC_USE_AGENT_STORE="True")
    assert found == said_of(1, agent.port, "rank 0")
