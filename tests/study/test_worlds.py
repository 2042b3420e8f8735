"""Over how many ranks a study spreads: all GPUs of a faked machine, or of a faked allocation."""

from pathlib import Path

import pytest

from dtlib.ranks.devices import Availability
from dtlib.study import worlds


@pytest.fixture(autouse=True)
def four_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch sees four GPUs, and there is an srun, which nothing here runs."""
    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(worlds, "available_here", lambda: Availability(4))


def job(nodes: int, gpus: int) -> dict[str, str]:
    names = f"n[1-{nodes}]" if nodes > 1 else "n1"
    return {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": names, "SLURM_GPUS_ON_NODE": str(gpus)}


def test_all_gpus_of_the_allocation_and_not_those_of_its_first_node() -> None:
    assert [worlds.gpus(env) for env in ({}, job(1, 4), job(2, 4), job(3, 4))] == [4, 4, 8, 12]


def test_without_a_gpu_an_allocation_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "available_here", lambda: Availability(0))
    assert worlds.gpus(job(2, 4)) == 0


@pytest.mark.parametrize(("env", "most", "counts"), [
    ({}, 1, [1]), ({}, 4, [1, 2, 4]), ({}, 6, [1, 2, 4, 6]),
    (job(2, 4), 8, [1, 2, 4, 8]), (job(3, 4), 12, [1, 2, 4, 8, 12]),
    (job(5, 3), 15, [1, 2, 15]),  # five nodes of three share neither 4 nor 8
])  # fmt: skip
def test_the_numbers_of_ranks_end_with_all_and_can_all_be_shared(env, most, counts) -> None:
    assert worlds.counts(most, env) == counts
