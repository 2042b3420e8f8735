"""`distributed.yaml` and the launch line that follows, on this machine and in srun tasks."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import python

from dtlib.cli import main
from dtlib.cluster.batch.distributed import FILE, Distributed, read
from dtlib.cluster.batch.launching import command, spread, srun_options
from dtlib.errors import BadInput, Unavailable

WORDS = ["text", "--steps=5"]
TRAIN = ["-m", "dtlib", "train", *WORDS]
JOB = {
    "SLURM_JOB_ID": "70123",
    "SLURM_JOB_NODELIST": "localhost,n[2-3]",  # the first one's name has an address everywhere
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_JOB_CPUS_PER_NODE": "32(x3)",
    "MASTER_ADDR": "192.0.2.1",
    "SLURM_NODEID": "0",  # so it is in the batch script, on whatever node
    "SLURM_PROCID": "0",
}


def task(node: int, tasks: int = 3) -> dict[str, str]:
    """The environment of an srun task on a node."""
    return {**JOB, "SLURM_NODEID": str(node), "SLURM_STEP_NUM_TASKS": str(tasks)}


def line(env: dict[str, str], **said: Any) -> list[str]:
    """The launch line without the name of this Python."""
    found = command(Distributed(**said), WORDS, env)
    assert found[0] == sys.executable
    return found[1:]


def test_the_file_that_comes_along_leaves_everything_open() -> None:
    assert read() == Distributed()
    assert FILE.name == "distributed.yaml"


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("trainer:\n  strategy: zero2\n  devices: 2\n  nodes: auto\nbackend: torchrun\n")
    assert read(file) == Distributed(strategy="zero2", devices=2, backend="torchrun")
    assert read(file, devices="auto", backend=None).devices is None


@pytest.mark.parametrize(("text", "says"), [
    ("trainer: [gpu]", "must hold lines of the form key: value"),
    ("trainer:\n  acelerator: gpu", "unknown key 'acelerator'"),
    ("trainer:\n  backend: torchrun", "unknown key 'backend'"),
    ("strategy: ddp", "unknown key 'strategy'"),
    ("trainer:\n  accelerator: cuda", "accelerator 'cuda' is not offered; choose from auto, cpu, "),
    ("backend: mpirun", "backend 'mpirun' is not offered; choose from torchrun, accelerate"),
    ("trainer:\n  devices: 0", "devices is 0; it must be auto or a whole number, at least 1."),
    ("trainer:\n  nodes: true", "nodes is True; it must be auto or a whole number"),
    ("trainer:\n  accelerator: gpu\ntpu_cores: 8", "tpu_cores 8 contradicts accelerator gpu"),
])  # fmt: skip
def test_what_a_file_may_not_say(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(BadInput) as caught:
        read(tmp_path / "mine.yaml")
    assert says in str(caught.value)


@pytest.mark.parametrize("said", [{"accelerator": "tpu"}, {"tpu_cores": 8}])
def test_a_tpu_is_refused_with_what_it_would_need(said: dict[str, Any]) -> None:
    with pytest.raises(Unavailable, match="needs a TPU machine with torch_xla"):
        Distributed(**said)


@pytest.mark.parametrize(("said", "says"), [
    ({"strategy": "zero2", "backend": "accelerate"}, "accelerate trains by ddp here, not by z"),
    ({"strategy": "lightning", "backend": "accelerate"}, "set backend: lightning, or"),
    ({"strategy": "single", "devices": 2}, "strategy single is one rank, not 2 on 1 node;"),
    ({"nodes": 2}, "nodes is 2, but outside a Slurm job there is 1"),
])  # fmt: skip
def test_contradictions(said: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        line({}, accelerator="cpu", **said)
    assert says in str(caught.value)


def test_torchrun_has_the_number_of_the_tasks_node() -> None:
    lines = [line(task(node)) for node in range(3)]
    assert [next(w for w in words if w.startswith("--node-rank")) for words in lines] == [
        "--node-rank=0", "--node-rank=1", "--node-rank=2",
    ]  # fmt: skip
    assert {"--nnodes=3", "--nproc-per-node=4", "--master-addr=192.0.2.1"} < set(lines[1])
    assert "--master-port=20123" in lines[1]
    assert lines[1][:2] == ["-m", "torch.distributed.run"]
    assert lines[1][-7:] == [*TRAIN, "--strategy", "ddp"]


def test_accelerate_gets_the_same_in_its_own_words() -> None:
    from accelerate.commands.launch import launch_command_parser

    words = line(task(2), backend="accelerate")
    assert words[:2] == ["-m", "accelerate.commands.launch"]
    args = launch_command_parser().parse_args(words[2:])
    assert (args.num_machines, args.num_processes, args.machine_rank) == (3, 12, 2)
    assert (args.main_process_ip, args.main_process_port) == ("192.0.2.1", 20123)
    assert args.multi_gpu and args.module and args.training_script == "dtlib"
    assert args.training_script_args == [*TRAIN[2:], "--strategy", "accelerate"]


def test_on_a_cpu_torchrun_starts_accelerates_ranks() -> None:
    words = line({}, accelerator="cpu", strategy="accelerate", devices=3)
    assert words[:3] == ["-m", "torch.distributed.run", "--nproc-per-node=3"]
    assert words[-4:] == ["--strategy", "accelerate", "--device", "cpu"]


def test_lightnings_ranks_are_srun_tasks() -> None:
    settings = Distributed(backend="lightning")
    assert srun_options(settings, JOB) == [
        "--nodes=3", "--ntasks=12", "--ntasks-per-node=4", "--cpus-per-task=8",
    ]  # fmt: skip
    few = srun_options(settings, JOB | {"SLURM_JOB_CPUS_PER_NODE": "32(x2),2"})
    assert few[-2:] == ["--cpus-per-task=1", "--overcommit"]
    assert line(task(1, 12), backend="lightning") == [*TRAIN, "--strategy", "lightning"]
    with pytest.raises(BadInput, match=r"4 srun tasks on each of 3 nodes, and this step has 3"):
        line(task(1, 3), backend="lightning")


def test_torchrun_is_one_srun_task_a_node() -> None:
    assert srun_options(Distributed(), JOB)[1:] == [
        "--ntasks=3", "--ntasks-per-node=1", "--cpus-per-task=32",
    ]  # fmt: skip
    with pytest.raises(BadInput, match="backend torchrun needs 1 srun task on each of 3 nodes"):
        line(task(0, 12))


def test_the_batch_script_is_no_place_for_the_line_of_several_nodes() -> None:
    with pytest.raises(BadInput, match="3 nodes need srun tasks, 1 on each"):
        line(JOB)


def test_single_is_one_rank_on_whatever_is_there() -> None:
    single = Distributed(strategy="single")
    assert srun_options(single, JOB)[:2] == ["--nodes=1", "--ntasks=1"]
    one = {**task(0, 1), "SLURM_STEP_NODELIST": "localhost"}
    assert line(one, strategy="single") == [*TRAIN, "--strategy", "single", "--ranks", "1"]


def test_devices_that_are_not_there() -> None:
    with pytest.raises(Unavailable, match="8 ranks on this host need 8 GPUs, but there are 4"):
        spread(Distributed(accelerator="gpu", devices=8), JOB)
    assert spread(Distributed(devices=8), JOB).device == "cpu"


def test_a_loopback_address_is_refused() -> None:
    with pytest.raises(
        BadInput, match=r"MASTER_ADDR=127\.0\.0\.1 is a loopback address: on it each host"
    ):
        line({**task(1), "MASTER_ADDR": "127.0.0.1"})


def test_the_line_is_printed_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "batch launch --print --accelerator cpu --devices 1 --backend lightning"
    assert main([*flags.split(), "text", "--out", "my run"]) == 0
    said = capsys.readouterr().out
    assert said.endswith("--strategy lightning --device cpu --ranks 1\n") and "'my run'" in said


def test_it_trains(tmp_path: Path) -> None:
    """The line takes the place of the process that made it, with the settings of the file."""
    file = tmp_path / "mine.yaml"
    file.write_text("trainer:\n  accelerator: cpu\n  strategy: single\n")
    small = "--steps=2 --global-batch=4 --max-length=16 --num-samples=16 --json"
    words = ("batch", "launch", file, "text", *small.split())
    done = python("-m", "dtlib", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["world_size"], summary["steps"]) == (1, 2)
