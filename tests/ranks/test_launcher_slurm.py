"""How ranks spread over an allocation, and what is refused; the real nodes are in tests/slurm."""

import json
import os
import socket
from pathlib import Path

import pytest

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import allocation, node, slurm
from dtlib.ranks.allocation import Spread
from dtlib.ranks.environment import each_node, environment_world, refuse_loopback, start_limit
from dtlib.ranks.outcome import Outcome, blame

TWO = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[1-2]"}


@pytest.fixture(autouse=True)
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An srun that can be found; nothing here runs it."""
    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(("env", "counts"), [
    ({}, (1, 1)),
    ({"SLURM_NTASKS_PER_NODE": "3"}, (3, 3)),
    ({"SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NTASKS": "8"}, (4, 4)),  # -N 2 -n 8
    ({"SLURM_TASKS_PER_NODE": "4,3", "SLURM_NTASKS": "7"}, (4, 3)),  # -N 2 -n 7
    # a notebook that runs as a step of one task: srun tells of the step, not of the job
    ({"SLURM_TASKS_PER_NODE": "1", "SLURM_NTASKS_PER_NODE": "4"}, (4, 4)),
    ({"SLURM_GPUS_PER_NODE": "h100:4", "SLURM_TASKS_PER_NODE": "1(x2)"}, (4, 4)),
    ({"SLURM_GPUS_ON_NODE": "8"}, (8, 8)),
    ({"SLURM_GPUS_ON_NODE": "0"}, (1, 1)),
])  # fmt: skip
def test_a_node_has_a_rank_for_each_gpu_else_each_task(env, counts):
    assert allocation.capacity(TWO | env) == Spread(("n1", "n2"), counts)


@pytest.mark.parametrize(("text", "counts"), [
    ("4(x2),3", [4, 4, 3]), ("4", [4]), ("2,1(x3),16(x2)", [2, 1, 1, 1, 16, 16]),
    ("12(x10)", [12] * 10), ("", []),
])  # fmt: skip
def test_slurms_counts_by_node(text, counts):
    assert each_node(text) == counts


def test_nodes_with_unlike_numbers_of_tasks_are_filled_as_they_are():
    env = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "4(x2),3"}
    hosts = ("n1", "n2", "n3")
    assert allocation.spread(None, env) == allocation.spread(11, env) == Spread(hosts, (4, 4, 3))
    assert allocation.spread(8, env) == Spread(hosts[:2], (4, 4))
    assert allocation.spread(6, env) == Spread(hosts, (2, 2, 2))
    assert allocation.spread(4, env) is allocation.spread(10, env) is None
    four = {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_GPUS_ON_NODE": "4"}
    assert allocation.spread(8, four) == Spread(hosts[:2], (4, 4))  # whole nodes first


def test_an_agent_starts_the_ranks_of_its_own_node(monkeypatch):
    settings = {"address": "n1", "port": 1, "master": "n1", "master_port": 2, "nodes": 3,
                "counts": {"n1": 4, "n2": 4, "n3": 3}, "root": "/dtlib"}  # fmt: skip
    for name, value in {
        node.SETTINGS: json.dumps(settings), "SLURM_NODEID": "2", "SLURMD_NODENAME": "n3",
        "PYTHONPATH": "", "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONHASHSEED": "random",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    started: list[list[str]] = []
    monkeypatch.setattr(node, "_reach", lambda *_: None)
    monkeypatch.setattr(node, "_refuse_own", lambda *_: None)
    monkeypatch.setattr("os.execv", lambda _, command: started.append(command))
    node.agent()
    assert {"--nnodes=3", "--node-rank=2", "--nproc-per-node=3"} <= set(started[0])
    assert os.environ["PYTHONHASHSEED"] == "0"  # one seed for all ranks


def test_one_node_or_no_srun_is_no_allocation_to_spread_over(monkeypatch):
    assert allocation.capacity({"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n1"}) is None
    assert allocation.capacity({"SLURM_JOB_NODELIST": "n[1-2]"}) is None
    monkeypatch.setenv("PATH", "")
    assert allocation.capacity(TWO) is None


@pytest.mark.parametrize(("ranks", "expected"), [
    (None, 4),  # left out: all of it
    (8, 4),
    (4, None),  # one node holds them
    (3, None),
    (6, 3),  # shared evenly, since whole nodes do not give six
    (5, None),  # cannot be shared evenly
    (16, 8),  # more than one a GPU: dist.choose_backend has the word
])  # fmt: skip
def test_ranks_fill_whole_nodes_or_share_evenly(ranks, expected):
    env = TWO | {"SLURM_GPUS_ON_NODE": "4"}
    whole = ("n1", "n2")
    counts = (expected or 0,) * 2
    assert allocation.spread(ranks, env) == (Spread(whole, counts) if expected else None)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_a_loopback_address_for_several_hosts_is_refused(address):
    with pytest.raises(BadInput, match=r"the 2 hosts n1, n2 would never meet"):
        refuse_loopback(address, ["n1", "n2"])


def test_a_name_without_an_address_is_refused(monkeypatch):
    def unknown(name: str) -> str:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    with pytest.raises(BadInput, match="set MASTER_ADDR to a name or address of n1"):
        refuse_loopback("head", ["n1", "n2"])


def test_srun_over_two_nodes_refuses_a_loopback_address():
    env = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0",
           "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
           "SLURM_STEP_NODELIST": "n[1-2]", "MASTER_ADDR": "127.0.0.1"}  # fmt: skip
    with pytest.raises(BadInput, match="would never meet"):
        environment_world(env)


def test_a_node_that_would_meet_itself_says_so(monkeypatch, capsys):
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    with pytest.raises(SystemExit):
        node._refuse_own("n1")
    assert "the first node's name n1 means 127.0.1.1" in capsys.readouterr().err


def test_an_unreachable_parent_is_a_sentence(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(node, "REACH", 0.1)
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    with pytest.raises(SystemExit):
        node._reach({"address": "127.0.0.1", "port": port, "token": "a" * 32})
    assert f"did not reach the launching process at 127.0.0.1 port {port}" in (
        capsys.readouterr().err
    )


def test_a_job_keeps_the_nodes_own_variables(monkeypatch):
    own = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
           "MASTER_ADDR": "n1", "MASTER_PORT": "2", "SLURMD_NODENAME": "n2"}  # fmt: skip
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    job = {"env": {"RANK": "0", "SLURMD_NODENAME": "n1", "SLURM_STEPMGR": "x", "MINE": "1"}}
    node._keep_own(job)
    assert own.items() <= job["env"].items()
    assert job["env"]["MINE"] == "1" and "SLURM_STEPMGR" not in job["env"]
    assert (job["place"].rank, job["place"].node_rank) == (3, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("env", "cpus"), [
    ({"SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_CPUS_PER_NODE": "8(x2)"}, 8),
    ({"SLURM_JOB_CPUS_PER_NODE": "16(x2),8"}, 8),
    ({}, 0),
])  # fmt: skip
def test_a_step_gets_the_jobs_cpus(env, cpus):
    assert allocation.cpus_per_node(env) == cpus


TORCHRUN = """
  time      : 2026-11-28_02:06:40
  host      : n2
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 24012)
  error_file: <N/A>
"""


def test_torchruns_table_tells_how_a_rank_ended():
    step = slurm.Step.__new__(slurm.Step)
    step.lines = TORCHRUN.splitlines()
    assert step.exit_code(3) == -9
    assert step.exit_code(1) is None


def test_only_a_connection_with_the_token_is_taken():
    step = slurm.Step.__new__(slurm.Step)
    step.token = "a" * 32
    step.listener = socket.create_server(("127.0.0.1", 0))
    step.listener.settimeout(5.0)
    for token, taken in (("b" * 32, False), ("a" * 32, True)):
        with socket.create_connection(step.listener.getsockname()) as mine:
            hello = {"token": token, "rank": 0, "kind": "line", "host": "n1"}
            mine.sendall(json.dumps(hello).encode().ljust(node.GREETING))
            found = step._accept()
            assert (found is not None) == taken
            if found:
                assert found[0]["host"] == "n1"
                found[1].close()
    step.listener.close()


def test_a_sentence_names_hosts():
    outcomes = [
        Outcome(0, "ok", host="n1"),
        Outcome(1, "error", error="ValueError", message="no", host="n2", at=1.0),
    ]
    failure = blame(outcomes, 10.0)
    assert failure is not None and failure.host == "n2"
    assert failure.sentence == (
        "Rank 1 on n2 raised ValueError: no; rank 0 on n1 had already returned."
    )


@pytest.mark.parametrize(("agents", "why"), [
    (("n1", "n2"), "all of n1 and n2 have reached this process, so their ranks are still loading "
     "torch: set DTLIB_START_LIMIT=600 to wait longer, or use a faster file system."),
    (("n1",), "n2 did not reach this process; check that the nodes can reach each other, and set "
     "MASTER_ADDR to an address that they all can reach."),
])  # fmt: skip
def test_slow_python_is_no_fault_of_the_network(agents, why, monkeypatch):
    """An agent reaches the parent before anything loads torch, and says so."""
    monkeypatch.setenv("DTLIB_START_LIMIT", "0.5")
    step = slurm.Step.__new__(slurm.Step)
    step.where, step.address, step.token = Spread(("n1", "n2"), (1, 1)), "n1", "a" * 32
    step.listener = socket.create_server(("127.0.0.1", 0))
    step.listener.settimeout(0.1)
    monkeypatch.setattr(step, "running", lambda: True)
    settings = {"address": "127.0.0.1", "port": step.listener.getsockname()[1], "token": step.token}
    for host in agents:
        monkeypatch.setenv("SLURMD_NODENAME", host)
        node._reach(settings)
    with pytest.raises(DtlibError) as caught:
        step.ranks()
    step.listener.close()
    assert str(caught.value) == f"Only 0 of 2 ranks reached n1 in 0.5 s; {why}"


@pytest.mark.parametrize("said", ["0", "-3", "soon", "1e3"])
def test_a_limit_that_is_no_time_is_refused(said):
    assert (start_limit({}), start_limit({"DTLIB_START_LIMIT": "600"})) == (120.0, 600.0)
    with pytest.raises(BadInput, match=f"DTLIB_START_LIMIT='{said}' is not a time"):
        start_limit({"DTLIB_START_LIMIT": said})
