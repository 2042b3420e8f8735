"""The tables of environment, device and backend; what a world of one does."""

import signal
import sys
import warnings
from pathlib import Path

import pytest
import torch
from processes import python

from dtlib.errors import BadInput, Unavailable
from dtlib.ranks import dist
from dtlib.ranks.dist import Availability, choose_backend, environment_world
from dtlib.ranks.environment import first_hosts
from dtlib.ranks.launcher import launch

GPU8 = Availability(cuda_devices=8, nccl=True)
MAC = Availability(mps=True)
NOTHING = Availability()


# field bug 3.02
@pytest.mark.parametrize(("world_size", "device", "here", "expected"), [
    (1, "auto", NOTHING, ("cpu", "gloo")),
    (4, "auto", NOTHING, ("cpu", "gloo")),
    (4, "cpu", GPU8, ("cpu", "gloo")),
    (8, "auto", GPU8, ("cuda", "nccl")),
    (8, "cuda", GPU8, ("cuda", "nccl")),
    (2, "cuda", Availability(cuda_devices=2), ("cuda", "gloo")),  # no NCCL in this build
    (16, "auto", GPU8, ("cpu", "gloo")),  # more ranks here than GPUs
    (1, "auto", MAC, ("cpu", "gloo")),  # Apple's GPU only when asked for
    (2, "auto", MAC, ("cpu", "gloo")),
    (1, "mps", MAC, ("mps", "gloo")),
])  # fmt: skip
def test_device_and_backend(world_size, device, here, expected):
    assert choose_backend(world_size, device, availability=here) == expected


def test_gpus_are_counted_for_each_host():
    chosen = choose_backend(16, "cuda", local_world_size=8, availability=GPU8)
    assert chosen == ("cuda", "nccl")


@pytest.mark.parametrize(("world_size", "device", "here", "error", "words"), [
    (2, "cuda", NOTHING, Unavailable, "No CUDA GPU"),
    (4, "cuda", Availability(cuda_devices=1, nccl=True), Unavailable, "4 GPUs"),
    (1, "mps", NOTHING, Unavailable, "No Apple GPU"),
    (2, "mps", MAC, BadInput, "not 2 ranks"),
    (1, "cdua", NOTHING, BadInput, "Did you mean 'cuda'?"),
])  # fmt: skip
def test_what_is_refused(world_size, device, here, error, words):
    with pytest.raises(error, match=words):
        choose_backend(world_size, device, availability=here)


TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}  # fmt: skip
# Two nodes of four tasks, as Slurm 22.05 and later say it.
SRUN = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
        "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}  # fmt: skip


@pytest.mark.parametrize(("env", "expected"), [
    ({}, None),
    ({"WORLD_SIZE": "4"}, None),
    (TORCHRUN, (5, 1, 8, 4, 1, "n1", "torchrun")),
    (SRUN, (5, 1, 8, 4, 1, "n1", "srun")),
    # torchrun as the one task of each node
    ({**SRUN, **TORCHRUN, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
     (5, 1, 8, 4, 1, "n1", "torchrun")),
    # torchrun in a batch script that has four tasks on its node, but started torchrun once
    ({**TORCHRUN, "SLURM_NTASKS_PER_NODE": "4"}, (5, 1, 8, 4, 1, "n1", "torchrun")),
    # all on one host: the loopback address, which needs no name resolution
    ({**SRUN, "SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "1",
      "SLURM_STEP_TASKS_PER_NODE": "8"}, (5, 1, 8, 8, 0, "127.0.0.1", "srun")),
    # a notebook or a script in an allocation: one task is no world
    ({**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"}, None),
])  # fmt: skip
def test_environment(env, expected):
    world = environment_world(env)
    if expected is None:
        assert world is None
        return
    assert world is not None
    found = (world.rank, world.local_rank, world.world_size, world.local_world_size)
    assert (*found, world.node_rank, world.master_addr, world.source) == expected


@pytest.mark.parametrize(("env", "words"), [
    ({**SRUN, **TORCHRUN}, "ntasks-per-node=1"),
    ({**TORCHRUN, "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS_PER_NODE": "4"}, "4 times"),
    ({"RANK": "0"}, "WORLD_SIZE, MASTER_ADDR, MASTER_PORT is not"),
    ({**TORCHRUN, "RANK": "8"}, "RANK=8 is outside"),
    ({**TORCHRUN, "RANK": "one"}, "RANK='one'"),
    ({**TORCHRUN, "MASTER_PORT": "70000"}, "MASTER_PORT='70000' is not a whole number from 0 to 6"),
    ({**TORCHRUN, "LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE='0' is not a whole number from 1"),
    ({**TORCHRUN, "LOCAL_RANK": "4"}, "variables of torchrun contradict .* local rank 4 of 4"),
    ({"SLURM_PROCID": "x"}, "SLURM_PROCID='x' is not a whole number"),
    ({"SLURM_PROCID": "3", "SLURM_NTASKS": "2"}, "SLURM_PROCID=3 is outside a world of .*=1"),
    ({**SRUN, "SLURM_PROCID": "8"}, "SLURM_PROCID=8 is outside .*; start the command with srun"),
    ({**SRUN, "SLURM_LOCALID": ""}, "SLURM_LOCALID is not set"),
    ({**SRUN, "SLURM_LOCALID": "7"}, "variables of srun contradict .* local rank 7 of 4"),
    ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "", "SLURM_STEP_NUM_NODES": "0"}, "from 1 to"),
])  # fmt: skip
def test_environments_that_contradict_themselves(env, words):
    with pytest.raises(BadInput, match=words):
        environment_world(env)


def test_steps_of_a_job_meet_at_different_ports():
    first, second = environment_world(SRUN), environment_world({**SRUN, "SLURM_STEP_ID": "1"})
    assert first is not None and second is not None
    assert first.master_port != second.master_port
    assert 12000 <= first.master_port < 30000  # below the ephemeral ports of Linux (32768)


@pytest.mark.parametrize(("nodelist", "hosts"), [
    ("n[1-2,5],login", ["n1", "n2", "n5", "login"]),
    ("gpu[08-10]", ["gpu08", "gpu09", "gpu10"]),
    ("single", ["single"]),
    ("a1,b[3]", ["a1", "b3"]),
    ("", []),
])  # fmt: skip
def test_slurm_node_lists(nodelist, hosts):
    assert first_hosts(nodelist) == hosts


def test_a_world_of_one_needs_no_launcher():
    """Started with plain python (field bug 2.02): the same calls work."""
    world = dist.world()
    assert (world.rank, world.world_size, world.backend) == (0, 1, None)
    assert dist.is_main()
    assert dist.sum_over_ranks(torch.tensor([3.0])).tolist() == [3.0]
    assert dist.broadcast_object({"a": 1}) == {"a": 1}
    out = dist.reduce_scatter_sum(torch.zeros(2), torch.tensor([1.0, 2.0]))
    assert out.tolist() == [1.0, 2.0]
    dist.barrier()


def collectives() -> tuple[object, ...]:
    warnings.simplefilter("error", FutureWarning)
    rank = dist.world().rank
    summed = dist.sum_over_ranks(torch.tensor([10.0**rank])).tolist()
    out = dist.reduce_scatter_sum(torch.zeros(2), torch.arange(6.0) * 10**rank)
    return summed, out.tolist(), dist.broadcast_object(f"from {rank}"), dist.is_main()


def test_what_ranks_share():
    results = launch(collectives, ranks=3, show=False)
    assert results[0] == ([111.0], [0.0, 111.0], "from 0", True)
    assert results[2] == ([111.0], [444.0, 555.0], "from 0", False)


def test_a_signal_sets_the_stop_flag_in_a_rank_of_torchrun():
    code = (
        "import os, signal; from dtlib.ranks import dist; dist.install_stop_handlers();"
        "os.kill(os.getpid(), signal.SIGUSR1); print(dist.stop_requested())"
    )
    run = python("-c", code)
    assert run.stdout.strip() == "True"


def test_importing_dist_and_launcher_does_not_load_torch():
    code = "import sys, dtlib.ranks.dist, dtlib.ranks.launcher; print('torch' in sys.modules)"
    run = python("-c", code, cwd=Path(__file__).parent)
    assert run.stdout.strip() == "False"


@pytest.mark.timeout(20)
def test_a_stop_signal_may_interrupt_the_handler_of_another(monkeypatch):
    """Slurm signals a job's step and its processes, so a rank may get two at once.

    Here a signal comes at every line of what the handler calls; a lock would be waited for by the
    very thread that holds it.
    """
    monkeypatch.setattr(dist._Stop, "requested", False)
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGUSR1)}

    def signal_here(*_: object) -> object:
        signal.raise_signal(signal.SIGUSR1)
        return signal_here

    tracing = sys.gettrace()
    dist.install_stop_handlers()
    try:
        sys.settrace(signal_here)  # type: ignore[arg-type]
        dist.request_stop()
    finally:
        sys.settrace(tracing)
        for name, old in before.items():
            signal.signal(name, old)
    assert dist.stop_requested()
