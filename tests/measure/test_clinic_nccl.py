"""`dtlib clinic` on dumps of NCCL's flight recorder, as pickle and as JSON.

tests/fixtures/clinic/nccl/make.py wrote them without a GPU, by the writer in torch's own headers.
"""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.measure.clinic import evidence, verdict

DUMPS = Path(__file__).resolve().parents[1] / "fixtures" / "clinic" / "nccl"
FORMS = pytest.mark.parametrize("form", ["", ".json"])


def copied(name, form, folder):
    """Copy a run's dumps in one form, as if they had been written a minute after its last call."""
    entries = json.loads((DUMPS / name / "flight_rank_0.json").read_text())["entries"]
    end = entries[-1]["time_created_ns"] * 1e-9 + 60
    for path in (DUMPS / name).glob(f"flight_rank_[0-9]{form}"):
        os.utime(shutil.copy(path, folder), (end, end))
    return folder


def examined(folder, patience=None):
    return verdict.examine(evidence.gather([folder]), patience)


@FORMS
def test_the_rank_that_left_a_loop_is_named(form, tmp_path):
    report = examined(copied("loop", form, tmp_path))
    (found,) = report.findings
    at = "" if form else " (loop.py:6)"
    assert (found.kind, found.rank, found.collective) == ("hang", 2, f"barrier{at}")
    assert found.sentence.startswith(f"Rank 2 did not join barrier{at}: ranks 0 and 1 wait there")
    assert "JSON form" in report.missing[0] if form else report.missing == ()


def test_a_collective_that_timed_out_is_retired_but_not_completed(tmp_path):
    copied("everybody", ".json", tmp_path)
    for path in tmp_path.iterdir():
        dump = json.loads(path.read_text())
        dump["entries"][-1]["retired"] = True
        path.write_text(json.dumps(dump))
    assert [one.kind for one in examined(tmp_path, patience=0).findings] == ["hang"]


@FORMS
def test_a_message_is_waited_for_from_a_rank_of_its_group(form, tmp_path):
    """Group rank 0 of ranks 1 and 3 is rank 1; batches and groups of one name raise no alarm."""
    found = examined(copied("pipeline", form, tmp_path)).findings
    assert [(one.kind, one.rank) for one in found] == [("hang", 1)]
    assert "rank 3 waits there" in found[0].sentence
    assert found[0].collective == "recv of 8 float32" + ("" if form else " (pipeline.py:7)")


def test_a_batch_whose_end_is_pending_is_waited_for(tmp_path):
    """Rank 0 has not called its batch, so neither message of rank 2's is on its way."""
    copied("pipeline", ".json", tmp_path)
    path = tmp_path / "flight_rank_0.json"
    dump = json.loads(path.read_text())
    dump["entries"] = [entry for entry in dump["entries"] if not entry["is_p2p"]]
    path.write_text(json.dumps(dump))
    found = {one.rank: one.sentence for one in examined(tmp_path, patience=0).findings}
    assert "Rank 0 did not join recv of 8 float32: rank 2 waits there" in found[0]


@FORMS
def test_a_collective_that_everybody_joined_is_no_ranks_fault(form, tmp_path):
    copied("everybody", form, tmp_path)
    (found,) = examined(tmp_path).findings
    assert (found.kind, found.rank) == ("hang", None)
    assert "Ranks 0 and 1 wait in all_reduce of 4 float32" in found.sentence
    assert "which every rank of its group has joined" in found.sentence
    assert examined(tmp_path, patience=1000).findings == ()  # a GPU is behind its program's calls


@FORMS
def test_a_missing_dump_is_named(form, tmp_path):
    (copied("loop", form, tmp_path) / f"flight_rank_2{form}").unlink()
    report = examined(tmp_path)
    assert report.findings[0].rank == 2
    assert "rank 2 left no dump" in report.findings[0].sentence
    assert "no flight-recorder dump of rank 2" in report.missing


@pytest.mark.skipif(not dist.is_nccl_available(), reason="this torch was built without NCCL")
@FORMS
def test_a_rank_that_never_called_a_collective(form, tmp_path):
    """By the function that wrote the dump in this very torch: its JSON has no entries at all."""
    from torch._C import _distributed_c10d as c10d

    copied("loop", form, tmp_path)
    write = c10d._dump_nccl_trace_json if form else c10d._dump_nccl_trace
    empty, other = (tmp_path / f"flight_rank_{rank}{form}" for rank in (2, 0))
    empty.write_bytes(write())
    os.utime(empty, (other.stat().st_mtime, other.stat().st_mtime))
    found = examined(tmp_path).findings[0]
    assert (found.kind, found.rank) == ("hang", 2)
    assert "Rank 2 did not join all_gather_into_tensor" in found.sentence


class Hostile:
    """Runs a command when a pickle of it is read without care."""

    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(protocol, tmp_path, monkeypatch):
    """Hidden in a dump that is true otherwise, and in every protocol."""
    monkeypatch.chdir(copied("loop", "", tmp_path))
    dump = pickle.loads(Path("flight_rank_1").read_bytes())
    dump["entries"][-1]["frames"].append(Hostile())
    raw = pickle.dumps(dump, protocol)
    Path("flight_rank_1").write_bytes(raw)
    with pytest.raises(BadInput, match=r"it would run \w+.system"):
        examined(tmp_path)
    assert not Path("ran").exists()
    pickle.loads(raw)
    assert Path("ran").exists()  # it was hostile
