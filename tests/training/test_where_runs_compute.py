"""The table: world, GPUs visible, Slurm's variables, strategy, precision → device, backend, ranks.

Counts, ids and variables are faked. What is decided before the ranks have met is checked against
what they decide together.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dtlib.config import RunConfig
from dtlib.errors import Unavailable
from dtlib.ranks import devices, launcher
from dtlib.ranks.devices import Availability
from dtlib.ranks.foresee import foresee
from dtlib.ranks.gpus import Seen, placed
from dtlib.training import start

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4",
            "GROUP_RANK": "1", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}  # fmt: skip
JOB = {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n[1-2]"}
SRUN = {**JOB, "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_STEP_NODELIST": "n[1-2]"}  # fmt: skip
EACH = {"SLURM_GPUS_PER_TASK": "1"}
ONE_NODE = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # fmt: skip


class Scene(NamedTuple):
    """The variables of one rank (or of a notebook), what it sees, and what all ranks see."""

    variables: dict[str, str]
    visible: int
    seen: list[list[str]]  # by host, the GPUs of each of its ranks


ALL = [["abcd"] * 4, ["efgh"] * 4]
BOUND = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
TWO_BY_FOUR = {
    "torchrun": Scene(TORCHRUN, 4, ALL),
    "torchrun, a wrapper sets CUDA_VISIBLE_DEVICES": Scene(TORCHRUN, 1, BOUND),
    "srun": Scene(SRUN, 4, ALL),
    "srun --gpus-per-task=1": Scene({**SRUN, **EACH}, 1, BOUND),
    "srun --gpus-per-task=1 --gpu-bind=none": Scene({**SRUN, **EACH}, 4, ALL),
    "srun --gpus-per-node=4 --gpu-bind=single:1": Scene(SRUN, 1, BOUND),
    "a notebook on the first node": Scene({**JOB, "SLURM_GPUS_ON_NODE": "4"}, 4, ALL),
    "a batch script of -N 2 -n 8": Scene(
        {**JOB, "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NTASKS": "8"}, 4, ALL
    ),
    "salloc on a login node": Scene({**JOB, "SLURM_GPUS_PER_NODE": "h100:4"}, 0, ALL),
}
STRATEGIES = ("ddp", "zero1", "zero2", "zero3", "offload", "infinity", "fsdp", "accelerate",
              "lightning")  # fmt: skip
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp64")
NO_FP64 = ("zero1", "zero2", "zero3", "offload", "infinity")  # DeepSpeed's optimizer has none


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Be a process of the scene, in a folder of its own."""
    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)

    def be(scene: Scene) -> None:
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        for name, value in scene.variables.items():
            monkeypatch.setenv(name, value)
        there = Availability(scene.visible, nccl=True)
        monkeypatch.setattr(devices, "available_here", lambda: there)

    return be


def ranks_of(scene: Scene) -> list[Seen]:
    return [
        Seen(f"n{number}", local, list(gpus), True)
        for number, host in enumerate(scene.seen, start=1)
        for local, gpus in enumerate(host)
    ]


def decided(scene: Scene, device: str) -> tuple[set[str], set[str], int]:
    """Device types, backends, and how many ranks have a device that no other has."""
    seen = ranks_of(scene)
    places = [placed(seen, rank, device) for rank in range(len(seen))]
    own = {
        each.gpus[int(place.device.partition(":")[2])]
        for each, place in zip(seen, places, strict=True)
        if place.kind == "cuda"
    }
    return {p.kind for p in places}, {p.backend for p in places}, len(own)


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize("where", TWO_BY_FOUR)
def test_in_a_world_of_two_nodes_of_four_gpus_all_compute_on_their_own(where, device, on):
    """Every strategy, in every precision that it has."""
    scene = TWO_BY_FOUR[where]
    on(scene)
    refused = []
    for strategy in STRATEGIES:
        for precision in PRECISIONS:
            if precision == "fp64" and strategy in NO_FP64:
                continue
            config = RunConfig(
                "text", strategy=strategy, precision=precision, device=device, global_batch=32
            )
            try:
                ranks = start.prepare(config).plan.world_size
            except Exception as error:
                refused.append((strategy, precision, str(error)))
                continue
            assert (foresee(ranks, device), ranks) == (("cuda", "nccl"), 8), (strategy, precision)
    assert not refused
    assert decided(scene, device) == ({"cuda"}, {"nccl"}, 8)


LAPTOP = Scene(ONE_NODE, 1, [["a", "a"]])
CROWDED = Scene(
    {**ONE_NODE, "RANK": "5", "LOCAL_RANK": "5", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "6"},
    4, [["abcd"] * 6],
)  # fmt: skip
ON_CPU = {
    "torchrun of two ranks on a laptop with one GPU": LAPTOP,
    "local rank 5 of 6 with 4 visible": CROWDED,
    "no GPU": Scene(ONE_NODE, 0, [["", ""]]),
}


@pytest.mark.parametrize("where", ON_CPU)
def test_with_too_few_gpus_all_ranks_compute_on_the_cpu(where, on):
    scene = ON_CPU[where]
    on(scene)
    ranks = start.prepare(RunConfig("text", global_batch=24)).plan.world_size
    assert ranks == len(scene.seen[0])
    assert decided(scene, "auto") == ({"cpu"}, {"gloo"}, 0)
    with pytest.raises(Unavailable, match="--device cpu"):
        decided(scene, "cuda")


@pytest.mark.parametrize(("ranks", "visible", "device", "expected"), [
    (1, 1, "auto", ("cuda", "nccl")), (4, 4, "auto", ("cuda", "nccl")),
    (6, 4, "auto", ("cpu", "gloo")), (2, 1, "auto", ("cpu", "gloo")),
    (4, 0, "auto", ("cpu", "gloo")), (4, 4, "cpu", ("cpu", "gloo")),
])  # fmt: skip
def test_ranks_that_this_machine_will_start(ranks, visible, device, expected, on):
    on(Scene({}, visible, []))
    assert foresee(ranks, device) == expected


@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_a_gpu_that_is_not_there_is_refused_before_a_rank_starts(strategy, on):
    on(Scene({}, 4, []))
    config = RunConfig("text", strategy=strategy, ranks=6, device="cuda", global_batch=24)
    with pytest.raises(Unavailable, match="6 ranks on this host need 6 GPUs, but there are 4"):
        start.prepare(config)


def test_every_run_says_its_device_and_backend(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"steps": 1, "global_batch": 4, "max_length": 8}
    start.train("text", ranks=2, **settings)
    line = "[rank 0] 2 ranks on cpu with gloo; strategy ddp, records in runs/text-ddp-001\n"
    assert line in capsys.readouterr().out
    assert launcher.default_ranks() == 2
