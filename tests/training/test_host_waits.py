"""No step waits for the device: what would is counted, on a CPU as it would be on a GPU."""

import contextlib
import io
from collections import Counter
from typing import Any

import pytest
import torch
from host_waits import HostWaits

from dtlib import launch
from dtlib.config import RunConfig
from dtlib.data import pictures
from dtlib.data.batches import DeviceImages, DeviceText, augmentation
from dtlib.ranks import launcher
from dtlib.strategies.base import Strategy
from dtlib.training import recorder, start
from dtlib.training.tasks.base import Task
from tests.strategy_runs import HERE, TABLE, plain, settings_of

pytestmark = pytest.mark.usefixtures("own_folder")

TASKS: dict[str, dict[str, Any]] = {
    "text": {"model": "nano", "max_length": 8, "num_samples": 100},
    "images": {"width": 8, "num_samples": 100},
}
SEVERAL = [name for name in plain(HERE) if name != "single" and TABLE[name].framework == "torch"]
WRAPPED = [name for name in plain(HERE) if TABLE[name].framework not in ("torch", "deepspeed")]
STEADY = range(3, 23)  # readings at 0, 1 and 2, until a step's time is known, then every ten steps
ONCE = {step: {"tolist": 1} for step in (12, 22)}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def waits_by_step(task: str, **settings) -> dict[int, dict[str, int]]:
    """Train here, and return the steady steps in which the host waited, and for what."""
    seen: list[Counter[str]] = [Counter()]
    usual: dict[str, Any] = {
        "steps": STEADY[-1],
        "global_batch": 4,
        "clip": 1.0,
        "checkpoint_every": 0,
    }
    with (
        HostWaits() as waits,
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        patch.setattr(Task, "evaluate", lambda self, _: {self.metric: 0.0, self.held_out_loss: 0.0})
        patch.setattr(recorder, "READ_WITHIN", 60.0)  # a busy machine reads no more often
        patch.setattr(launcher, "progress", lambda *_, **__: seen.append(Counter(waits.counts)))
        whole = {**usual, **TASKS[task], "out": "run", **settings}
        start.train_on_rank(start.prepare(RunConfig(task, **whole)))
    assert len(seen) == STEADY.stop
    steps = {step: dict(seen[step] - seen[step - 1]) for step in STEADY}
    return {step: waited for step, waited in steps.items() if waited}


def of_each(names: list[str]) -> dict[tuple[str, str], dict[int, dict[str, int]]]:
    return {
        (task, name): waits_by_step(task, out=f"{task} {name}", **settings_of(name))
        for task in TASKS
        for name in names
        if task == "text" or not TABLE[name].gpt
    }


@pytest.mark.parametrize(
    "names", [SEVERAL, pytest.param(WRAPPED, marks=pytest.mark.slow)], ids=["torch", "wrapped"]
)
def test_steps_of_two_ranks_wait_for_nothing_between_two_readings(names):
    for found in launch(of_each, names, ranks=2, timeout=60, show=False):
        assert found == dict.fromkeys(found, ONCE)


@pytest.mark.parametrize("task", TASKS)
def test_nor_does_one_rank_and_a_number_that_is_read_in_a_step_is_found(task, monkeypatch):
    accumulate = Strategy.accumulate

    def curious(*args):
        loss = accumulate(*args)
        assert loss.item() > 0
        return loss

    assert waits_by_step(task, strategy="single") == ONCE
    monkeypatch.setattr(Strategy, "accumulate", curious)
    found = waits_by_step(task, strategy="single", out="curious")
    one = {"aten::_local_scalar_dense": 1}
    assert found == {step: one | ONCE.get(step, {}) for step in STEADY}


def test_fp16_reads_its_scale_once_a_step():
    """The rate of the next step depends on whether this one was skipped."""
    found = waits_by_step("text", strategy="single", precision="fp16")
    assert {step: waited["aten::_local_scalar_dense"] for step, waited in found.items()} == (
        dict.fromkeys(STEADY, 1)
    )


def test_a_run_of_slow_steps_is_read_in_each(monkeypatch):
    monkeypatch.setattr(recorder.statistics, "fmean", lambda _: 31.0)  # of 60 s between readings
    found = waits_by_step("text", strategy="single")
    assert found == {step: {"tolist": 1} for step in STEADY}


def test_batches_reach_another_device_without_a_wait():
    """The device without memory stands for a GPU."""
    images = DeviceImages(pictures.load("train", 8), "meta")
    text = DeviceText(torch.arange(65), 8, "meta")
    images.batch(torch.arange(2))  # copies mean and deviation, once
    with HostWaits() as waits:
        for indices in (torch.arange(4), torch.arange(4, 8)):
            assert images.batch(indices, augmentation(4, 0, 0))[0].is_meta
            assert text.batch(indices)[0].is_meta
    assert waits.counts == {}


def test_every_kind_of_wait_is_counted():
    number, mask = torch.ones(3), torch.tensor([True, False, True])
    with HostWaits() as waits:
        number[torch.arange(2)], number.to("meta", non_blocking=True), number.to(torch.float64)
        torch.empty(3, device="meta").copy_(number, non_blocking=True)
    assert waits.counts == {}
    with waits:
        number.tolist(), number.numpy(), number.cpu(), number[mask], mask.nonzero()
        number[0].item(), bool(mask.any()), int(number[1]), number.to("meta")
        torch.empty(3, device="meta").copy_(number)
    once = ("tolist", "numpy", "cpu", "aten::index", "aten::nonzero", "aten::_to_copy")
    assert waits.counts == dict.fromkeys(once, 1) | {
        "aten::_local_scalar_dense": 3,
        "aten::copy_": 1,
    }
