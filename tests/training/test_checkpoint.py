"""Checkpoints: a crash at any moment leaves one that loads, and nothing in it runs code."""

from __future__ import annotations

import argparse
import ast
import random
import re
import time
from pathlib import Path

import numpy
import pytest
import torch

import dtlib
from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import dist
from dtlib.ranks.launcher import launch
from dtlib.training.checkpoint import checkpoints, folders
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import (
    refuse_foreign,
    refuse_other_model,
    restore_rng,
    rng_state,
    what_is_incomplete,
)


def content(step: int) -> dict:
    return {"weights": torch.full((3,), float(step)), "step": step, "names": ["a", "b"]}


def save(root: Path, *steps: int, **settings) -> Checkpoints:
    saved = Checkpoints(root, **settings)
    for step in steps:
        saved.save(step, content(step), {"rng": rng_state()})
    return saved


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_comes_back_as_it_was(tmp_path):
    loaded = save(tmp_path, 7).latest()
    assert loaded.step == 7
    assert torch.equal(loaded.shared["weights"], torch.full((3,), 7.0))
    assert loaded.shared["names"] == ["a", "b"]
    assert loaded.world_size == 1
    assert loaded.notes == ()


def test_nothing_there_is_none(tmp_path):
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
    "is not one of a checkpoint": lambda path: (path / "complete.json").write_text(FOREIGN),
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
    assert "step-00000002 is passed over" in loaded.notes[0]


@pytest.mark.parametrize("sentence", TEAR)
def test_torn_one_with_none_before_is_bad_input(tmp_path, sentence):
    saved = save(tmp_path, 1)
    TEAR[sentence](tmp_path / "step-00000001")
    with pytest.raises(BadInput, match=sentence) as caught:
        saved.latest()
    assert "1 of 1 are torn" in str(caught.value)
    assert caught.value.exit_code == 2


# field bug 5.03
def test_half_a_file_is_an_error_of_torch(tmp_path):
    save(tmp_path, 1)
    path = tmp_path / "step-00000001" / "shared.pt"
    cut_to_half(path)
    with pytest.raises(RuntimeError):
        folders.read_tensors(path, "cpu")


@pytest.mark.parametrize("written_before_failure", [0, 1])
def test_saver_that_raises_leaves_the_old_one(tmp_path, monkeypatch, written_before_failure):
    saved = save(tmp_path, 1)
    real, calls = checkpoints.write_tensors, []

    def failing(path, part):
        if len(calls) == written_before_failure:
            path.write_bytes(b"half")
            raise OSError("No space left on device")
        calls.append(path)
        return real(path, part)

    monkeypatch.setattr(checkpoints, "write_tensors", failing)
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
        monkeypatch.setattr(checkpoints, name, crash)
    with pytest.raises(KeyboardInterrupt):
        saved.save(2, content(2), {})
    monkeypatch.undo()
    published = moment == "folder fsync"
    assert ("step-00000002" in names(tmp_path)) == published, "nothing unfinished is ever seen"
    assert saved.latest().step == (2 if published else 1)


def test_marker_is_the_last_file_and_publishing_the_last_act(tmp_path, monkeypatch):
    acts = []
    for name in ("write_tensors", "write_atomically", "fsync_folder"):
        real = getattr(checkpoints, name)

        def noted(path, *rest, _name=name, _real=real):
            acts.append(f"{_name} {path.name}")
            return _real(path, *rest)

        monkeypatch.setattr(checkpoints, name, noted)
    save(tmp_path, 1)
    assert acts == [
        "write_tensors rank0.pt",
        "write_tensors shared.pt",
        "write_atomically complete.json",
        f"fsync_folder {tmp_path.name}",
    ]


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
    saved = Checkpoints(tmp_path, keep_last=2)
    for step, metric in enumerate([3.0, 1.0, 2.0, float("nan"), None, 4.0], start=1):
        saved.save(step, content(step), {}, metric)
    assert names(tmp_path) == ["step-00000002", "step-00000005", "step-00000006"]
    assert saved.best().step == 2
    assert saved.latest().step == 6


def test_best_is_not_kept_unless_asked(tmp_path):
    saved = Checkpoints(tmp_path, keep_last=1, keep_best=False)
    for step, metric in [(1, 1.0), (2, 2.0)]:
        saved.save(step, content(step), {}, metric)
    assert names(tmp_path) == ["step-00000002"]


def test_the_only_complete_one_is_never_removed(tmp_path):
    save(tmp_path, 1)
    for step in (2, 3, 4):  # torn, and later
        (tmp_path / f"step-{step:08d}").mkdir()
    folders.prune(tmp_path, keep_last=1, keep_best=False)
    assert names(tmp_path) == ["step-00000001"]
    with pytest.raises(BadInput, match="keep_last is 0"):
        Checkpoints(tmp_path, keep_last=0)


def test_nothing_is_removed_while_none_is_complete(tmp_path):
    (tmp_path / "step-00000001").mkdir()
    folders.prune(tmp_path, keep_last=1, keep_best=False)
    assert names(tmp_path) == ["step-00000001"]


def test_same_step_again_never_overwrites(tmp_path):
    saved = save(tmp_path, 1, 2)
    cut_to_half(tmp_path / "step-00000002" / "shared.pt")
    saved.save(2, {"weights": torch.zeros(1)}, {})
    assert saved.latest().path.name == "step-00000002-again1"
    assert names(tmp_path) == ["step-00000001", "step-00000002-again1"]  # the torn one went


def test_steps_are_ordered_as_numbers(tmp_path):
    saved = save(tmp_path, 99_999_999, 100_000_000)
    assert saved.latest().step == 100_000_000


class Config:
    pass


# field bug 5.04
@pytest.mark.parametrize(
    "bad",
    [
        numpy.float64(0.5),
        numpy.random.get_state()[1],
        argparse.Namespace(a=1),
        Path("x"),
        Config(),
        len,
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_would_not_load_is_refused_when_saved(tmp_path, bad):
    saved = save(tmp_path, 1)
    with pytest.raises(BadInput, match=r"shared\['best'\]\[0\] is a .*: convert it"):
        saved.save(2, {"best": [bad]}, {})
    assert saved.latest().step == 1


@pytest.mark.parametrize(
    "good",
    [
        1,
        0.5,
        True,
        None,
        "a",
        b"a",
        torch.float16,
        torch.Size([1]),
        {1, 2},
        (1, [2]),
        {"a": {1: 2}},
    ],
    ids=str,
)
def test_plain_values_come_back(tmp_path, good):
    saved = Checkpoints(tmp_path)
    refuse_foreign(good)
    saved.save(1, {"value": good}, {})
    assert saved.latest().shared["value"] == good


def test_file_that_would_run_code_is_not_loaded(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "was here",))

    told = folders.write_tensors(tmp_path / "evil.pt", {"a": Evil()})
    assert told["bytes"] == (tmp_path / "evil.pt").stat().st_size
    with pytest.raises(Exception, match=r"eights.only"):
        folders.read_tensors(tmp_path / "evil.pt", "cpu")
    assert not (tmp_path / "was here").exists()


def shapes_and_state(*layers: torch.nn.Module) -> tuple[dict, dict]:
    model = torch.nn.Sequential(*layers).state_dict()
    shapes = {name: tensor.shape for name, tensor in model.items()}
    return {"model": shapes, "moments": shapes}, {"model": model, "optimizer": {}, "steps": 1}


def test_another_model_is_refused_with_the_first_difference():
    shapes, saved = shapes_and_state(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    refuse_other_model(shapes, saved, "c")
    wide, _ = shapes_and_state(torch.nn.Linear(2, 4), torch.nn.Linear(4, 1))
    sentence = r"checkpoint c is of another model: 0.weight is 3×2 there and 4×2 here, and 2 more"
    with pytest.raises(BadInput, match=sentence):
        refuse_other_model(wide, saved, "c")
    with pytest.raises(BadInput, match=r"1.weight is 1×3 there and missing here, and 1 more"):
        refuse_other_model(shapes_and_state(torch.nn.Linear(2, 3))[0], saved, "c")
    with pytest.raises(BadInput, match="b is missing there and a scalar here"):
        refuse_other_model({"model": {**shapes["model"], "b": torch.Size([])}}, saved, "c")


def test_a_checkpoint_of_the_earlier_form_is_refused_with_what_to_do():
    shapes, saved = shapes_and_state(torch.nn.Linear(2, 3))
    del saved["steps"]
    with pytest.raises(BadInput, match="written before checkpoints could change their strategy"):
        refuse_other_model(shapes, saved, "c")


def test_what_would_not_load_again_is_named():
    shapes, state = shapes_and_state(torch.nn.Linear(2, 3))
    state["optimizer"] = {"exp_avg": dict(state["model"])}
    assert what_is_incomplete(shapes, state) is None
    state["optimizer"]["exp_avg"]["0.bias"] = torch.zeros(2)  # a shard
    assert what_is_incomplete(shapes, state) == "exp_avg of 0.bias is 2 instead of 3"
    state["model"]["0.weight"] = torch.zeros(0)  # what stage 3 shows
    assert what_is_incomplete(shapes, state) == "model of 0.weight is empty instead of 3×2"
    del state["model"]["0.weight"]
    assert what_is_incomplete(shapes, state) == "model of 0.weight is missing instead of 3×2"


# field bug 1.15
def test_one_rank_of_a_world_writes_what_is_shared(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        checkpoints, "write_tensors", lambda path, part: opened.append(path.name) or {}
    )
    for node in range(2):
        for local_rank in range(4):
            rank = 4 * node + local_rank
            place = dist.World(rank, local_rank, 8, 4, torch.device("cpu"), "gloo")
            monkeypatch.setattr(dist, "world", lambda place=place: place)
            monkeypatch.setattr(dist, "is_main", lambda place=place: place.rank == 0)
            checkpoints._write_own(tmp_path, {"a": 1}, {})
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
    assert "saved by 2 ranks and goes to 3: ranks from 2 on have no state" in more[0][2][0]
    assert load_as_rank(tmp_path) == (5, drawn[0], ())  # fewer ranks: each has its own


def test_missing_rank_file_is_passed_over_by_all_ranks(tmp_path):
    launch(save_as_rank, tmp_path, 5, ranks=2, timeout=20)
    launch(save_as_rank, tmp_path, 6, ranks=2, timeout=20)
    (tmp_path / "step-00000006" / "rank1.pt").unlink()
    loaded = launch(load_as_rank, tmp_path, ranks=2, timeout=20)
    assert [step for step, _, _ in loaded] == [5, 5]
    assert all("rank1.pt is missing" in notes[0] for _, _, notes in loaded)
    (tmp_path / "step-00000005" / "rank1.pt").unlink()
    with pytest.raises(BadInput, match="2 of 2 are torn"):
        launch(load_as_rank, tmp_path, ranks=2, timeout=20)


def fail_on_rank_1(root: Path) -> str:
    """Save where rank 1's disk is full; return the error that this rank sees."""
    real = checkpoints.write_tensors

    def full(path, part):
        if dist.world().rank == 1:
            raise OSError("No space left on device")
        return real(path, part)

    checkpoints.write_tensors = full
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_is_said_in_the_words_of_the_system(tmp_path):
    # A device that is always full stands for one that fills up; a link makes it the file.
    (tmp_path / "shared.pt").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        folders.write_tensors(tmp_path / "shared.pt", {"weights": torch.ones(1 << 20)})


SOURCES = sorted(Path(dtlib.__file__).parent.rglob("*.py"))


def calls_of(name: str, tree: ast.AST) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


# field bugs 1.16 and 5.04
def test_every_torch_load_says_where_to_and_runs_no_code():
    found = 0
    for path in SOURCES:
        for call in calls_of("torch.load", ast.parse(path.read_text())):
            found += 1
            told = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert told.get("weights_only") == "True", path
            assert told.get("map_location", "None") != "None", path
    assert found


# field bug 1.16
def test_tensors_come_to_the_cpu_unless_told(tmp_path, monkeypatch):
    saved, asked, real = save(tmp_path, 1), [], torch.load

    def noting(*args, map_location, **rest):
        asked.append(map_location)
        return real(*args, map_location=map_location, **rest)

    monkeypatch.setattr(torch, "load", noting)
    saved.latest()
    assert asked == ["cpu", "cpu"]


# field bug 4.06
def test_no_old_amp_names():
    old = re.compile(r"torch\.cuda\.amp|torch\.cpu\.amp")
    assert [path for path in SOURCES if old.search(path.read_text())] == []


def save_slowly(root: Path) -> int:
    """On rank 0 the file that all share takes longer than a collective waits."""
    write = checkpoints.write_tensors

    def slow(path: Path, part: dict) -> dict:
        if path.name == "shared.pt":
            time.sleep(8)
        return write(path, part)

    checkpoints.write_tensors = slow
    loaded = save(root, 1).latest()
    assert loaded is not None
    return loaded.step


def test_a_long_save_on_rank_0_is_no_hang(tmp_path):
    assert launch(save_slowly, tmp_path, ranks=2, timeout=5, show=False) == [1, 1]
