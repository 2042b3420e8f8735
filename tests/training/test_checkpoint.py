"""Checkpoints: a crash at any moment leaves one that loads, and nothing in it runs code."""

import random
from pathlib import Path

import numpy
import pytest
import torch

from dtlib.errors import BadInput, DtlibError
from dtlib.training.checkpoint import disk
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import restore_rng
from tests.saved_checkpoints import content, names, save


def test_comes_back_as_it_was_and_nothing_there_is_none(tmp_path):
    loaded = save(tmp_path, 7).latest()
    assert loaded.step == 7
    assert torch.equal(loaded.shared["weights"], torch.full((3,), 7.0))
    assert loaded.shared["names"] == ["a", "b"]
    assert loaded.world_size == 1
    assert loaded.notes == ()
    assert Checkpoints(tmp_path / "none").latest() is None


def test_model_and_optimizer_come_back(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saved = Checkpoints(tmp_path)
    saved.save(1, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, {})
    shared = saved.latest().shared
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(shared["model"])
    assert torch.equal(other.weight, model.weight)
    torch.optim.AdamW(other.parameters()).load_state_dict(shared["optimizer"])


def draw() -> tuple[float, float, float]:
    return random.random(), float(numpy.random.rand()), float(torch.rand(()))


def test_random_numbers_go_on_where_they_were(tmp_path):
    numpy.random.standard_normal()  # leaves a second one in numpy's pocket
    random.gauss()
    saved = save(tmp_path, 1)
    expected = draw(), random.gauss(), numpy.random.standard_normal()
    restore_rng(saved.latest().rank_state["rng"])
    assert (draw(), random.gauss(), numpy.random.standard_normal()) == expected


FOREIGN = '{"step": 1, "world_size": 1, "metric": null, "files": {}}'
TEAR = {
    "shared.pt has": lambda path: cut_to_half(path / "shared.pt"),
    "rank0.pt has": lambda path: cut_to_half(path / "rank0.pt"),
    "shared.pt is not what was written": lambda path: flip_a_byte(path / "shared.pt"),
    "rank0.pt is not what was written": lambda path: flip_a_byte(path / "rank0.pt"),
    "rank0.pt is missing": lambda path: (path / "rank0.pt").unlink(),
    "it has no complete.json": lambda path: (path / "complete.json").unlink(),
    "it cannot be read": lambda path: cut_to_half(path / "complete.json"),
    "is not a checkpoint's marker": lambda path: (path / "complete.json").write_text(FOREIGN),
    "unexpected keyword": lambda path: (path / "complete.json").write_text('{"kind": 1}'),
}


def cut_to_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


# field bug 5.03
@pytest.mark.parametrize("sentence", TEAR)
def test_torn_one_is_passed_over_for_the_one_before(tmp_path, sentence):
    saved = save(tmp_path, 1, 2)
    TEAR[sentence](tmp_path / "step-00000002")
    with pytest.warns(UserWarning, match=sentence) as caught:
        loaded = saved.latest()
    assert loaded.step == 1
    assert torch.equal(loaded.shared["weights"], torch.full((3,), 1.0))
    assert len(caught) == 1
    assert "step-00000002 is skipped" in loaded.notes[0]


@pytest.mark.parametrize("sentence", TEAR)
def test_torn_one_with_none_before_is_bad_input(tmp_path, sentence):
    saved = save(tmp_path, 1)
    TEAR[sentence](tmp_path / "step-00000001")
    with pytest.raises(BadInput, match=sentence) as caught:
        saved.latest()
    assert "torn: 1 of 1; the last one" in str(caught.value)
    assert caught.value.exit_code == 2


# field bug 5.03
def test_half_a_file_is_an_error_of_torch(tmp_path):
    save(tmp_path, 1)
    path = tmp_path / "step-00000001" / "shared.pt"
    cut_to_half(path)
    with pytest.raises(RuntimeError):
        disk.Disk(tmp_path).folders()[0].tensors("shared.pt")


@pytest.mark.parametrize("written_before_failure", [0, 1])
def test_saver_that_raises_leaves_the_old_one(tmp_path, monkeypatch, written_before_failure):
    saved = save(tmp_path, 1)
    real, calls = disk.write_tensors, []

    def failing(path, part):
        if len(calls) == written_before_failure:
            path.write_bytes(b"half")
            raise OSError("No space left on device")
        calls.append(path)
        return real(path, part)

    monkeypatch.setattr(disk, "write_tensors", failing)
    with pytest.raises(DtlibError, match="rank 0 failed at a checkpoint: No space left"):
        saved.save(2, content(2), {})
    monkeypatch.undo()
    assert saved.latest().step == 1
    assert names(tmp_path) == ["step-00000001"]  # half a checkpoint fills no disk
    saved.save(3, content(3), {})
    assert names(tmp_path) == ["step-00000001", "step-00000003"]


@pytest.mark.parametrize("moment", ["marker", "rename", "folder fsync"])
def test_crash_while_publishing_leaves_the_old_one(tmp_path, monkeypatch, moment):
    saved = save(tmp_path, 1)

    def crash(*args):
        raise KeyboardInterrupt  # not an Exception: nothing of ours may tidy up after a crash

    if moment == "rename":
        monkeypatch.setattr(Path, "rename", crash)
    else:
        name = {"marker": "write_atomically", "folder fsync": "fsync_folder"}[moment]
        monkeypatch.setattr(disk, name, crash)
    with pytest.raises(KeyboardInterrupt):
        saved.save(2, content(2), {})
    monkeypatch.undo()
    published = moment == "folder fsync"
    assert ("step-00000002" in names(tmp_path)) == published, "nothing unfinished is ever seen"
    assert saved.latest().step == (2 if published else 1)


def test_marker_is_the_last_file_and_publishing_the_last_act(tmp_path, monkeypatch):
    acts = []
    for name in ("write_tensors", "write_atomically", "fsync_folder"):
        real = getattr(disk, name)

        def noted(path, *rest, _name=name, _real=real):
            acts.append(f"{_name} {path.name}")
            return _real(path, *rest)

        monkeypatch.setattr(disk, name, noted)
    save(tmp_path, 1)
    assert acts == ["write_tensors rank0.pt", "write_tensors shared.pt",
                    "write_atomically complete.json", f"fsync_folder {tmp_path.name}"]  # fmt: skip


# field bug 5.03
def test_leftover_temporary_is_ignored_and_removed(tmp_path):
    saved = save(tmp_path, 1)
    leftover = tmp_path / ".tmp-step-00000009"
    leftover.mkdir()
    (leftover / "complete.json").write_text("{}")
    assert saved.latest().step == 1
    saved.save(2, content(2), {})
    assert not leftover.exists()


def test_last_ones_and_best_one_are_kept(tmp_path):
    saved = Checkpoints(tmp_path)
    for step, metric in enumerate([3.0, 1.0, 2.0, float("nan"), None, 4.0], start=1):
        saved.save(step, content(step), {}, metric)
    assert names(tmp_path) == ["step-00000002", "step-00000005", "step-00000006"]
    assert saved.best().step == 2
    assert saved.latest().step == 6


def test_the_only_complete_one_is_never_removed(tmp_path):
    save(tmp_path, 1)
    for step in (2, 3, 4):  # torn, and later
        (tmp_path / f"step-{step:08d}").mkdir()
    disk.Disk(tmp_path).prune()
    assert names(tmp_path) == ["step-00000001"]
    (tmp_path / "step-00000001" / "complete.json").unlink()
    disk.Disk(tmp_path).prune()
    assert names(tmp_path) == ["step-00000001"]  # nor anything while none is complete


def test_same_step_again_never_overwrites(tmp_path):
    saved = save(tmp_path, 1, 2)
    cut_to_half(tmp_path / "step-00000002" / "shared.pt")
    saved.save(2, {"weights": torch.zeros(1)}, {})
    assert saved.latest().path.name == "step-00000002-again1"
    assert names(tmp_path) == ["step-00000001", "step-00000002-again1"]  # the torn one went


def test_steps_are_ordered_as_numbers(tmp_path):
    saved = save(tmp_path, 99_999_999, 100_000_000)
    assert saved.latest().step == 100_000_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_is_said_in_the_words_of_the_system(tmp_path):
    # A device that is always full stands for one that fills up; a link makes it the file.
    (tmp_path / "shared.pt").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        disk.write_tensors(tmp_path / "shared.pt", {"weights": torch.ones(1 << 20)})


# field bug 1.16
def test_tensors_come_to_the_cpu(tmp_path, monkeypatch):
    saved, asked, real = save(tmp_path, 1), [], torch.load

    def noting(*args, map_location, **rest):
        asked.append(map_location)
        return real(*args, map_location=map_location, **rest)

    monkeypatch.setattr(torch, "load", noting)
    saved.latest()
    assert asked == ["cpu", "cpu"]
