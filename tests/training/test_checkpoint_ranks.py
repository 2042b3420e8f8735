"""Checkpoints of several ranks: each has its own, and what fails on one fails on all."""

import time
from pathlib import Path

import pytest
import torch

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import dist
from dtlib.ranks.launcher import launch
from dtlib.training.checkpoint import checkpoints, disk
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import restore_rng, rng_state
from tests.saved_checkpoints import content, names, save


# field bug 1.15
def test_one_rank_of_a_world_writes_what_is_shared(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(disk, "write_tensors", lambda path, part: opened.append(path.name) or {})
    for node in range(2):
        for local_rank in range(4):
            rank = 4 * node + local_rank
            place = dist.World(rank, local_rank, 8, 4, torch.device("cpu"), "gloo")
            monkeypatch.setattr(dist, "world", lambda place=place: place)
            monkeypatch.setattr(dist, "is_main", lambda place=place: place.rank == 0)
            checkpoints._write_own(disk.Disk(tmp_path), "draft", {"a": 1}, {})
    assert opened.count("shared.pt") == 1
    assert sorted(opened) == sorted([*(f"rank{rank}.pt" for rank in range(8)), "shared.pt"])


def save_as_rank(root: Path, step: int) -> list[float]:
    """Save on every rank from a random state of its own; return what that state draws next."""
    rank = dist.world().rank
    torch.manual_seed(rank)
    Checkpoints(root).save(step, content(step) if rank == 0 else {}, {"rng": rng_state()})
    return torch.rand(3).tolist()


def load_as_rank(root: Path) -> tuple[int, list[float] | None, tuple[str, ...]]:
    loaded = Checkpoints(root).latest()
    if loaded.rank_state is None:
        return loaded.step, None, loaded.notes
    restore_rng(loaded.rank_state["rng"])
    return loaded.step, torch.rand(3).tolist(), loaded.notes


def test_each_rank_gets_its_own_back(tmp_path):
    drawn = launch(save_as_rank, tmp_path, 5, ranks=3, timeout=20)
    assert len({tuple(numbers) for numbers in drawn}) == 3
    path = tmp_path / "step-00000005"
    assert names(path) == ["complete.json", "rank0.pt", "rank1.pt", "rank2.pt", "shared.pt"]
    loaded = launch(load_as_rank, tmp_path, ranks=3, timeout=20)
    assert loaded == [(5, numbers, ()) for numbers in drawn]


def test_other_number_of_ranks(tmp_path):
    drawn = launch(save_as_rank, tmp_path, 5, ranks=2, timeout=20)
    more = launch(load_as_rank, tmp_path, ranks=3, timeout=20)
    assert [own for _, own, _ in more] == [*drawn, None]
    assert "saved by 2 ranks and is loaded by 3: ranks 2 and up have no state" in more[0][2][0]
    assert load_as_rank(tmp_path) == (5, drawn[0], ())  # fewer ranks: each has its own


def test_missing_rank_file_is_passed_over_by_all_ranks(tmp_path):
    launch(save_as_rank, tmp_path, 5, ranks=2, timeout=20)
    launch(save_as_rank, tmp_path, 6, ranks=2, timeout=20)
    (tmp_path / "step-00000006" / "rank1.pt").unlink()
    loaded = launch(load_as_rank, tmp_path, ranks=2, timeout=20)
    assert [step for step, _, _ in loaded] == [5, 5]
    assert all("rank1.pt is missing" in notes[0] for _, _, notes in loaded)
    (tmp_path / "step-00000005" / "rank0.pt").unlink()
    said = "torn: 2 of 2; the last one, step-00000006: rank1.pt is missing.*this folder can stay"
    with pytest.raises(BadInput, match=said):
        launch(load_as_rank, tmp_path, ranks=2, timeout=20)


def fail_on_rank_1(root: Path) -> str:
    """Save where rank 1's disk is full; return the error that this rank sees."""
    real = disk.write_tensors

    def full(path, part):
        if dist.world().rank == 1:
            raise OSError("No space left on device")
        return real(path, part)

    disk.write_tensors = full
    try:
        Checkpoints(root).save(6, {}, {})
    except DtlibError as error:
        return str(error)
    return "saved"


def refuse_on_rank_1(root: Path) -> str:
    own = {"where": root} if dist.world().rank == 1 else {}  # a Path would not load
    try:
        Checkpoints(root).save(6, {}, own)
    except BadInput as error:
        return str(error)
    return "saved"


def test_what_one_rank_refuses_all_refuse(tmp_path):
    seen = launch(refuse_on_rank_1, tmp_path, ranks=2, timeout=20)
    assert len(set(seen)) == 1
    assert "rank1['where'] is a pathlib." in seen[0]


def test_rank_that_cannot_write_fails_all_at_once_and_the_old_one_stays(tmp_path):
    launch(save_as_rank, tmp_path, 5, ranks=3, timeout=20)
    seen = launch(fail_on_rank_1, tmp_path, ranks=3, timeout=20)
    assert set(seen) == {"rank 1 failed at a checkpoint: No space left on device."}
    assert [step for step, _, _ in launch(load_as_rank, tmp_path, ranks=3, timeout=20)] == [5] * 3


def save_slowly(root: Path) -> int:
    """On rank 0 the file that all share takes longer than a collective waits."""
    write = disk.write_tensors

    def slow(path: Path, part: dict) -> dict:
        if path.name == "shared.pt":
            time.sleep(8)
        return write(path, part)

    disk.write_tensors = slow
    loaded = save(root, 1).latest()
    assert loaded is not None
    return loaded.step


def test_a_long_save_on_rank_0_is_no_hang(tmp_path):
    assert launch(save_slowly, tmp_path, ranks=2, timeout=5, show=False) == [1, 1]
