"""`dtlib.launch` in a process of an allocation of two nodes: ranks on both, and their manners."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mini_cluster import Slurm, steps

from dtlib.ranks.environment import each_node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SCRIPT = Path(__file__).with_name("ranks_on_nodes.py")
BASELINE = "ddp_baseline.sbatch"


@pytest.fixture(scope="module")
def told(cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script told, by name; after it the job's own processes are gone."""
    slurm = Slurm(tmp_path_factory.mktemp("ranks"), cluster)
    command = f"exec {sys.executable} {SCRIPT}"
    number = slurm.sbatch(
        "--nodes=2", "--cpus-per-task=2", "--output=ranks.log", f"--wrap={command}"
    )
    state = slurm.waited(number)
    log = (slurm.folder / "ranks.log").read_text()
    assert state == "COMPLETED 0:0", log
    assert not slurm.processes(number)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line for line in lines} | {"log": log}


def test_results_come_by_rank_from_all_nodes(told):
    assert told["meet"]["results"] == [["n1", 11, 7], ["n2", 11, 7]]


def test_what_does_not_spread_evenly_stays_here(told):
    assert told["meet"]["here"] == [["n1", 111, 7]] * 3


def test_an_error_names_rank_host_and_what_the_others_did(told):
    found = told["raise_on_the_last"]
    assert found["host"] == "n2"
    assert found["sentence"].startswith(
        "Rank 3 on n2 raised ValueError: too big (ranks_on_nodes.py"
    )
    assert "ranks 0, 1 and 2 were waiting in barrier" in found["sentence"]


def test_a_killed_rank_is_named_with_its_signal(told):
    found = told["die_on_the_last"]
    assert found["reason"] == "killed"
    assert found["sentence"].startswith("Rank 1 on n2 was killed by SIGKILL; rank 0 on n1 was wait")


def test_a_hang_says_who_waits_and_who_had_returned(told):
    what = "recv of 2 float32"
    assert re.fullmatch(
        rf"Rank 1 on n1 did not join {what} within 3 s: rank 0 on n1 was waiting in {what} "
        r"\(ranks_on_nodes.py:\d+\); ranks 1, 2 and 3 had already returned\.",
        told["wait_alone"]["sentence"],
    ), told["wait_alone"]["sentence"]


def test_a_stop_signal_reaches_every_rank(told):
    assert told["until_stopped"]["results"] == [True, True]


def test_an_interrupt_ends_the_step_everywhere(told):
    assert told["for_ever"]["interrupted"]
    assert "Interrupted: rank 0 was running `time.sleep(600)`" in told["log"]


@pytest.mark.parametrize(("address", "says"), [
    # as Debian's /etc/hosts gives a machine's own name the address 127.0.1.1
    ("myself", "MASTER_ADDR=myself means 127.0.1.1, which is a loopback address: on it each host"),
    ("n3", "did not reach the launching process at n3"),  # nobody has this address
])  # fmt: skip
def test_an_address_at_which_ranks_never_meet(slurm, address, says):
    command = f"{sys.executable} -c 'import dtlib; dtlib.launch(print)'"
    number = slurm.sbatch("--nodes=2", "--output=log", f"--wrap={command}", MASTER_ADDR=address)
    assert slurm.waited(number) == "FAILED 1:0"
    assert says in (slurm.folder / "log").read_text()
    assert not slurm.processes(number)


def test_the_baseline_refuses_a_loopback_address(slurm):
    number = slurm.script(BASELINE, "text", "--steps=2", MASTER_ADDR="127.0.0.1")
    assert slurm.waited(number) == "FAILED 2:0"
    log = (slurm.folder / f"dtlib-ddp-{number}.log").read_text()
    assert "MASTER_ADDR=127.0.0.1 means on each of the 2 nodes that node itself" in log


def test_the_baseline_stops_is_requeued_and_resumes(slurm):
    small = ("--global-batch=4", "--max-length=16", "--num-samples=64")
    number = slurm.script(BASELINE, "text", "--steps=100", *small)
    run = slurm.folder / f"batch/dtlib-ddp-{number}/run"
    slurm.until(lambda: steps(run), number)
    slurm.run("scancel", "--batch", "--signal=USR1", number)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.logs()
    assert slurm.exit_codes(number) == ["75", "0"]
    assert steps(run) == list(range(1, 101))


FILLED = """
import json, os, socket, dtlib
def meet():
    return socket.gethostname(), hash("a name")
found = dtlib.launch(meet)
print(json.dumps([os.environ["SLURM_TASKS_PER_NODE"], found]))
"""


def test_as_many_ranks_as_tasks_were_asked_for_however_slurm_lays_them_out(cluster, tmp_path):
    """`sbatch -N 2 -n 8`: Slurm may give one node more of them than the other."""
    slurm = Slurm(tmp_path, cluster)
    (tmp_path / "filled.py").write_text(FILLED)
    number = slurm.sbatch(
        "-N", "2", "-n", "8", "--output=filled.log", f"--wrap=exec {sys.executable} filled.py"
    )
    state = slurm.waited(number)
    log = (tmp_path / "filled.log").read_text()
    assert state == "COMPLETED 0:0", log
    layout, found = json.loads(log.splitlines()[-1])
    hosts = [host for host, _ in found]
    assert hosts == ["n1"] * each_node(layout)[0] + ["n2"] * each_node(layout)[-1]
    assert len(hosts) == 8
    assert len({seed for _, seed in found}) == 1
