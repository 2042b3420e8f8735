"""NVTX ranges, by a tool that takes notes: nesting, capture, and a run that fails."""

from types import SimpleNamespace

import pytest
import torch
from profiling_cases import captured
from toy import Toy, config

from dtlib.config import RunConfig
from dtlib.errors import BadInput, DtlibError
from dtlib.measure import profiling
from dtlib.ranks import dist
from dtlib.ranks.launcher import launch
from dtlib.training.loop import train_task

SMALL = {"model": "nano", "global_batch": 8, "num_samples": 64, "strategy": "single", "ranks": 1}


class Notes:
    """Writes a range as `name( … )`, and a capture as `[ … ]`."""

    def __init__(self) -> None:
        self.written = ""

    def push(self, name: str) -> None:
        self.written += f"{name}("

    def pop(self) -> None:
        self.written += ")"

    def start(self) -> None:
        self.written += "["

    def stop(self) -> None:
        self.written += "]"


def test_the_loop_marks_every_part_and_captures_the_steps_it_was_told(tmp_path, monkeypatch):
    notes = Notes()
    monkeypatch.setattr(profiling, "nvtx", lambda: notes)
    settings = config(
        strategy="single", out=str(tmp_path), nvtx=True, nvtx_first=2, nvtx_last=3, steps=4
    )
    run_toy(settings, [[[1.0], [2.0]]] * 4)
    parts = "forward()backward()" * 2
    step = f"step(data()communication(){parts}optimizer())"
    # the losses are collected outside of any part, hence not in the notes
    assert notes.written == f"{step}[{step}{step}]{step}"


def run_toy(settings: RunConfig, data: list) -> None:
    world = dist.world()
    train_task(Toy(settings, world, data), settings, settings.plan(1), world)


def test_all_ranks_capture_the_same_steps_also_those_of_a_resumed_run(tmp_path):
    settings = {**SMALL, "task": "text", "strategy": "ddp", "ranks": 2, "nvtx": True,
                "nvtx_first": 2, "nvtx_last": 3, "out": str(tmp_path / "run")}  # fmt: skip
    options = {"ranks": 2, "device": "cpu", "show": False, "timeout": 60}
    for steps in (4, 8):  # the second start goes on after the fourth step, and counts from there
        config = {**settings, "steps": steps, "resume": steps == 8}
        assert launch(captured, config, **options) == [[("before", 2), ("after", 3)]] * 2


def test_ranges_are_closed_and_the_capture_ends_when_a_step_fails():
    notes = Notes()
    with pytest.raises(DtlibError), profiling.marked(1, 3, notes) as steps:
        with steps.step():
            pass
        with steps.step(), profiling.mark("forward"):
            raise DtlibError("out of memory")
    assert notes.written == "[step()step(forward())]"
    with profiling.mark("forward"):  # nobody listens any more
        pass
    assert notes.written.endswith("]")


def test_without_a_tool_nothing_is_marked():
    with profiling.marked(1, 1, None) as steps, steps.step(), profiling.mark("data") as told:
        assert told is None
    assert profiling.nvtx() is None or torch.cuda.is_available()


def test_torch_is_told_where_there_is_cuda(monkeypatch):
    told = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "nvtx", SimpleNamespace(
        range_push=told.append, range_pop=lambda: told.append("pop")))  # fmt: skip
    monkeypatch.setattr(torch.cuda, "profiler", SimpleNamespace(
        start=lambda: told.append("start"), stop=lambda: told.append("stop")))  # fmt: skip
    with profiling.marked(1, 1, profiling.nvtx()) as steps, steps.step():
        pass
    assert told == ["start", "step", "pop", "stop"]


def test_steps_that_leave_nothing_to_capture_are_refused():
    with pytest.raises(BadInput, match="nvtx_first 5 and nvtx_last 4 leave no step"):
        RunConfig("text", nvtx=True, nvtx_last=4)
    with pytest.raises(BadInput, match="nvtx_first is 0"):
        RunConfig("text", nvtx=True, nvtx_first=0)
