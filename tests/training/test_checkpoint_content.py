"""What a checkpoint may hold, and of which model: all else is refused, by its name."""

import argparse
from pathlib import Path

import numpy
import pytest
import torch

from dtlib.errors import BadInput
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.content import refuse_foreign, refuse_other_model, what_is_incomplete
from dtlib.training.checkpoint.disk import Disk, write_tensors
from tests.saved_checkpoints import save


class Config:
    pass


# field bug 5.04
@pytest.mark.parametrize("bad", [
    numpy.float64(0.5), numpy.random.get_state()[1], argparse.Namespace(a=1), Path("x"), Config(),
    len,
], ids=lambda bad: type(bad).__name__)  # fmt: skip
def test_what_would_not_load_is_refused_when_saved(tmp_path, bad):
    saved = save(tmp_path, 1)
    with pytest.raises(BadInput, match=r"shared\['best'\]\[0\] is a .*: convert it"):
        saved.save(2, {"best": [bad]}, {})
    assert saved.latest().step == 1


@pytest.mark.parametrize("good", [
    1, 0.5, True, None, "a", b"a", torch.float16, torch.Size([1]), {1, 2}, (1, [2]), {"a": {1: 2}},
], ids=str)  # fmt: skip
def test_plain_values_come_back(tmp_path, good):
    saved = Checkpoints(tmp_path)
    refuse_foreign(good)
    saved.save(1, {"value": good}, {})
    assert saved.latest().shared["value"] == good


def test_file_that_would_run_code_is_not_loaded(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "was here",))

    (tmp_path / "step-00000001").mkdir()
    told = write_tensors(tmp_path / "step-00000001" / "evil.pt", {"a": Evil()})
    [folder] = Disk(tmp_path).folders()
    assert told["bytes"] == folder.storage.sizes(folder.name)["evil.pt"]
    with pytest.raises(Exception, match=r"eights.only"):
        folder.tensors("evil.pt")
    assert not (tmp_path / "was here").exists()


def shapes_and_state(*layers: torch.nn.Module) -> tuple[dict, dict]:
    model = torch.nn.Sequential(*layers).state_dict()
    shapes = {name: tensor.shape for name, tensor in model.items()}
    return {"model": shapes, "moments": shapes}, {"model": model, "optimizer": {}, "steps": 1}


def test_another_model_is_refused_with_the_first_difference():
    shapes, saved = shapes_and_state(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    refuse_other_model(shapes, saved, "c")
    wide, _ = shapes_and_state(torch.nn.Linear(2, 4), torch.nn.Linear(4, 1))
    first = "0.weight is 3×2 there and 4×2 here"
    sentence = rf"checkpoint c is of another model: {first} \(tensors that differ: 3\)"
    with pytest.raises(BadInput, match=sentence):
        refuse_other_model(wide, saved, "c")
    missing = r"1.weight is 1×3 there and missing here \(tensors that differ: 2\)"
    with pytest.raises(BadInput, match=missing):
        refuse_other_model(shapes_and_state(torch.nn.Linear(2, 3))[0], saved, "c")
    with pytest.raises(BadInput, match="b is missing there and a scalar here"):
        refuse_other_model({"model": {**shapes["model"], "b": torch.Size([])}}, saved, "c")


def test_a_checkpoint_of_the_earlier_form_is_refused_with_what_to_do():
    shapes, saved = shapes_and_state(torch.nn.Linear(2, 3))
    del saved["steps"]
    with pytest.raises(BadInput, match="written by an older version"):
        refuse_other_model(shapes, saved, "c")


def test_what_would_not_load_again_is_named():
    shapes, state = shapes_and_state(torch.nn.Linear(2, 3))
    state["optimizer"] = {"exp_avg": dict(state["model"])}
    assert what_is_incomplete(shapes, state) is None
    state["optimizer"]["exp_avg"]["0.bias"] = torch.zeros(2)  # a shard
    assert what_is_incomplete(shapes, state) == "0.bias (exp_avg) is 2 instead of 3"
    state["model"]["0.weight"] = torch.zeros(0)  # what stage 3 shows
    assert what_is_incomplete(shapes, state) == "0.weight (model) is empty instead of 3×2"
    del state["model"]["0.weight"]
    assert what_is_incomplete(shapes, state) == "0.weight (model) is missing instead of 3×2"
