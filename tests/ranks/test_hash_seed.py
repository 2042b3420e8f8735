"""All ranks of a launch order a set in one way, however they were started."""

import os
import sys
from pathlib import Path

import pytest
from scripts import run_script
from torch.nn.parallel import DistributedDataParallel

from dtlib.cli import launched
from dtlib.cluster.batch import launching
from dtlib.ranks.environment import hash_seed
from dtlib.ranks.launcher import launch
from dtlib.ranks.pool import pool

SEED = "PYTHONHASHSEED"
TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "seed"), [("", "0"), ("7", "7"), ("random", "0"), ("0", "0"), (None, "0")]
)
def test_a_number_that_the_user_chose_is_kept(said, seed):
    assert hash_seed({} if said is None else {SEED: said}) == seed


def swapped_buffers() -> tuple[int, str | None, list[str]]:
    """Register a buffer a name in a set's order; DDP hands out rank 0's by their positions."""
    import torch

    names = {f"kind_{number}" for number in range(12)}
    model = torch.nn.Linear(1, 1)
    for name in names:
        model.register_buffer(name, torch.full((1,), float(name.rpartition("_")[2])))
    before = {name: float(value) for name, value in model.named_buffers()}
    DistributedDataParallel(model)(torch.ones(1, 1)).sum().backward()
    after = {name: float(value) for name, value in model.named_buffers()}
    changed = [name for name in before if before[name] != after[name]]
    return hash("a name"), os.environ.get(SEED), changed


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ranks_of_a_launch_register_buffers_in_one_order(method, monkeypatch):
    if method == "forkserver" and not sys.platform.startswith("linux"):
        pytest.skip("ranks are not forked from a server here")
    monkeypatch.setenv("DTLIB_START", method)
    monkeypatch.delenv(SEED, raising=False)
    pool().close()  # what is warm was started before
    try:
        first, second = launch(swapped_buffers, ranks=2, show=False)
    finally:
        pool().close()
    assert first == second
    assert first[1:] == ("0", [])


def test_batch_launch_hands_its_launcher_one_seed(monkeypatch):
    monkeypatch.setenv(SEED, "random")
    seeds = []
    monkeypatch.setattr("os.execv", lambda *_: seeds.append(os.environ[SEED]))
    file = Path(__file__).parents[2] / "slurm" / "distributed.yaml"
    launching.main([str(file), "--accelerator", "cpu", "text"])
    assert seeds == ["0"]


def test_a_rank_of_torchrun_starts_again_with_the_seed_of_all(monkeypatch):
    """Once, and only where there are others."""
    again: list[tuple[list[str], str]] = []
    monkeypatch.setattr("os.execve", lambda _, words, env: again.append((words, env[SEED])))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "dtlib", "train", "text"])
    for env in ({}, {**TORCHRUN, SEED: "3"}, {**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}):
        launched.share_hash_seed(env)
    assert not again
    launched.share_hash_seed(TORCHRUN)
    launched.share_hash_seed({**TORCHRUN, SEED: "random"})
    assert again == [([sys.executable, "-m", "dtlib", "train", "text"], "0")] * 2


SCRIPT = """
import sys
from dtlib import launch
said = len(set(launch(hash, "a name"))) == 1
sys.stdout.write(f"same {said}\\n")  # in one piece: the ranks share the pipe
"""


@pytest.mark.parametrize("seed", [None, "5"])
def test_a_script_under_torchrun_is_told(tmp_path, seed, monkeypatch):
    monkeypatch.delenv(SEED, raising=False)
    if seed:
        monkeypatch.setenv(SEED, seed)
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    run = run_script(tmp_path, SCRIPT, *start)
    assert run.returncode == 0, run.stderr
    said = run.stderr.count("set PYTHONHASHSEED=0 and start again.")
    assert (run.stdout.split(), said) == (["same", str(bool(seed))] * 2, 0 if seed else 1)


def test_dtlib_under_torchrun_shares_a_seed(tmp_path):
    """`torchrun -m dtlib train`: the ranks never say that they differ."""
    words = ["text", "--steps", "1", "--global-batch", "2", "--max-length", "8", "--data",
             "grammar"]  # fmt: skip
    text = f"""
import sys, dtlib.cli
sys.argv = ["dtlib", "train", *{words!r}]
sys.exit(dtlib.cli.main())
"""
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    run = run_script(tmp_path, text, *start)
    assert run.returncode == 0, run.stderr
    assert "PYTHONHASHSEED" not in run.stderr
    assert "2 ranks on cpu with gloo" in run.stdout
