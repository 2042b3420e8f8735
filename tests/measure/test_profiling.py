"""Profiles of real ranks that are slow for a known reason; traces made by hand; intervals."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from profiling_cases import profiled

from dtlib.errors import BadInput
from dtlib.measure import profiling
from dtlib.measure.profiling import Shares, intervals
from dtlib.measure.profiling.verdict import Verdict
from dtlib.ranks.launcher import launch


def judged(folder: Path, **slow: Any) -> tuple[list[Shares], Verdict]:
    launch(profiled, str(folder), ranks=2, device="cpu", show=False, timeout=60, **slow)
    found = profiling.shares(profiling.read(folder))
    for one in found:
        assert one.steps == 3
        assert one.compute + one.communication + one.input + one.idle == pytest.approx(1)
    return found, profiling.verdict(found)


def test_a_slow_loader_is_input_bound(tmp_path: Path) -> None:
    found, verdict = judged(tmp_path, loader=0.2)
    assert (verdict.bound, verdict.straggler) == ("input", None)
    # a sleep is at least as long as it was asked for
    assert all(one.input * one.seconds > 0.18 for one in found)
    assert "loader" in verdict.next and "waiting for a batch" in verdict.evidence


def test_a_slow_link_is_communication_bound(tmp_path: Path) -> None:
    found, verdict = judged(tmp_path, link=0.3)
    assert (verdict.bound, verdict.straggler) == ("communication", None)
    assert all(one.communication * one.seconds > 0.25 for one in found)


def test_heavy_compute_is_compute_bound(tmp_path: Path) -> None:
    _, verdict = judged(tmp_path, rows=16384)
    assert verdict.bound == "compute"
    assert str(verdict).startswith("compute-bound: ")


def test_a_late_rank_is_named_with_what_holds_it_up(tmp_path: Path) -> None:
    found, verdict = judged(tmp_path, loader=0.3, late=1)
    assert (verdict.bound, verdict.straggler) == ("input", 1)
    assert [len(step.collectives) for step in profiling.read(tmp_path)] == 6 * [1]
    assert found[0].waited > 0.5 and found[0].communication > found[1].communication
    assert verdict.evidence.startswith("other ranks wait for rank 1")


# --- A trace made by hand, as a GPU writes one -------------------------------------------------


def event(name: str, category: str, begin: float, duration: float) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, "ts": begin, "dur": duration, "tid": 7,
            "pid": 1}  # fmt: skip


def write(folder: Path, rank: int, events: list[dict[str, Any]]) -> None:
    (folder / f"rank{rank}.json").write_text(json.dumps({"traceEvents": events}))


GPU = [
    event("ProfilerStep#3", "user_annotation", 0, 100),
    event(
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "user_annotation", 0, 10
    ),
    event("aten::mm", "cpu_op", 10, 5),  # a launch, which is not work
    event("c10d::allreduce_", "cpu_op", 20, 2),
    event("sm90_gemm", "kernel", 20, 40),
    event("elementwise", "kernel", 50, 20),
    event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 60, 30),
]


def test_the_kernels_of_a_gpu_trace_are_what_counts(tmp_path: Path) -> None:
    write(tmp_path, 0, GPU)
    (one,) = profiling.shares(profiling.read(tmp_path))
    # compute 20–70, nccl 60–90: 10 of it hidden, 20 exposed; idle 10–20 and 90–100
    expected = {"input": 0.1, "compute": 0.5, "communication": 0.2, "hidden": 0.1, "idle": 0.2}
    assert {name: getattr(one, name) for name in expected} == pytest.approx(expected)
    assert one.seconds == pytest.approx(100e-6)


def test_time_in_a_collective_before_the_last_rank_came_is_waiting(tmp_path: Path) -> None:
    for rank, begin in ((0, 20), (1, 70)):
        step, nccl = GPU[0], event("ncclDevKernel_AllReduce", "kernel", begin, 90 - begin)
        write(tmp_path, rank, [step, event("gemm", "kernel", 10, begin - 10), nccl])
    first, second = profiling.shares(profiling.read(tmp_path))
    assert (first.communication, first.waited) == pytest.approx((0.7, 0.5))
    assert (second.communication, second.waited) == pytest.approx((0.2, 0.0))
    verdict = profiling.verdict([first, second])
    assert (verdict.bound, verdict.straggler) == ("communication", 1)


def test_a_collective_in_a_range_of_communication_is_listed_once(tmp_path: Path) -> None:
    range_ = "dtlib.communication"
    wire = [
        event(range_, "user_annotation", 10, 30),  # holds two collectives, under way together
        event("gloo:all_reduce", "cpu_op", 11, 20),
        event("gloo:all_reduce", "cpu_op", 13, 4),
        event("gloo:broadcast", "user_annotation", 50, 10),
        event(range_, "user_annotation", 70, 40),  # torch recorded none in it
    ]
    write(tmp_path, 0, [GPU[0], *wire])
    (step,) = profiling.read(tmp_path)
    found = [(round(begin * 1e6), round(end * 1e6)) for begin, end in step.collectives]
    assert found == [(11, 31), (13, 17), (50, 60), (70, 100)]
    assert profiling.length(step.communication) == pytest.approx(70e-6)


def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"has no trace .rank0\.json, rank1\.json, ….: give the folder profile"
    ):
        profiling.read(tmp_path)
    (tmp_path / "rank0.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read as a Chrome trace"):
        profiling.read(tmp_path)
    write(tmp_path, 0, [event("aten::mm", "cpu_op", 0, 1)])
    with pytest.raises(BadInput, match="has no step in it"):
        profiling.read(tmp_path)


def test_a_profile_that_ended_early_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("an older one")
    with (
        pytest.raises(BadInput, match="4 steps ran, but wait 1, warmup 1 and active 3 take 5"),
        profiling.record(tmp_path) as step,
    ):
        for _ in range(4):
            step()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match="active at least 1"), profiling.record(tmp_path, active=0):
        pass


def test_steps_after_the_schedule_are_not_recorded(tmp_path: Path) -> None:
    with profiling.record(tmp_path, active=2) as step:
        for k in range(8):
            torch.ones(k + 1).sum()
            step()
    assert [one.number for one in profiling.read(tmp_path)] == [2, 3]


def test_a_batch_is_handed_on_and_an_error_of_the_loader_is_not_swallowed() -> None:
    def broken() -> Any:
        yield 1
        raise OSError("disk")

    assert list(profiling.input_of([1, 2, 3])) == [1, 2, 3]
    with pytest.raises(OSError, match="disk"):
        list(profiling.input_of(broken()))


# --- Intervals ---------------------------------------------------------------------------------


def test_intervals() -> None:
    a = intervals.union([(5, 7), (0, 2), (1, 3), (3, 4), (6, 6.5), (9, 9)])
    assert a == [(0, 4), (5, 7)]
    b = [(1.0, 2.0), (3.0, 6.0), (8.0, 9.0)]
    assert intervals.overlap(a, b) == [(1, 2), (3, 4), (5, 6)]
    assert intervals.without(a, b) == [(0, 1), (2, 3), (6, 7)]
    assert intervals.without(b, a) == [(4, 5), (8, 9)]
    assert profiling.length(a) == 6


def test_overlap_and_rest_add_up_to_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        drawn = torch.randint(0, 40, (2, 6, 2), generator=generator).sort(-1).values.tolist()
        a, b = (intervals.union(map(tuple, spans)) for spans in drawn)
        points = {k + 0.5 for k in range(40)}
        both = [p for p in points if inside(a, p) and inside(b, p)]
        assert profiling.length(intervals.overlap(a, b)) == len(both)
        rest = [p for p in points if inside(a, p) and not inside(b, p)]
        assert profiling.length(intervals.without(a, b)) == len(rest)


def inside(intervals: profiling.intervals.Intervals, point: float) -> bool:
    return any(begin < point < end for begin, end in intervals)


# --- The clock ---------------------------------------------------------------------------------


def test_warm_up_is_left_out_and_every_call_is_timed() -> None:
    calls = []
    seconds = profiling.seconds_of(lambda: calls.append(1), repeats=4, warmup=2)
    assert (len(calls), len(seconds)) == (6, 4) and min(seconds) >= 0
    with pytest.raises(BadInput, match="repeats is 0"):
        profiling.seconds_of(lambda: None, repeats=0)


def test_a_recording_inside_another_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    outer, inner = profiling.record(tmp_path), profiling.record(tmp_path / "inner")
    with pytest.raises(BadInput, match="another recording"), outer, inner:
        pass
    assert not list(tmp_path.rglob("*.json"))
