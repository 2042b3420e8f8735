"""The pictures say what was recorded: a trace whose times are known, shares, roofs."""

import json

import pytest

from dtlib.measure.profiling.shares import Shares
from dtlib.measure.profiling.traces import Step

from .own_trace import shortest_step
from .pictures import draw_gaps, draw_question, draw_ranks, draw_roofline, draw_shares, draw_step


def event(name, begin, end, kind="cpu_op"):
    return {"ph": "X", "cat": kind, "name": name, "ts": 1000 + begin, "dur": end - begin}


@pytest.fixture
def trace(tmp_path):
    """Two steps; only the shorter one, of 100 µs, has operators."""
    marks = [("ProfilerStep#2", -110, 0), ("ProfilerStep#3", 0, 100), ("forward", 0, 40),
             ("backward", 40, 90), ("update", 90, 100), ("forward", -110, -60)]  # fmt: skip
    operators = [
        ("aten::linear", 10, 30), ("aten::addmm", 12, 28), ("aten::copy_", 12, 14),
        ("aten::mean", 34, 38), ("autograd::engine::evaluate_function: A", 40, 90),
        ("aten::mm", 50, 80), ("aten::sqrt", 91, 99),
    ]  # fmt: skip
    events = [event(*mark, kind="user_annotation") for mark in marks]
    events += [event(*one) for one in operators] + [{"ph": "i", "name": "no span"}]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_the_shortest_step_has_its_gaps_and_self_times(trace):
    parts = shortest_step(trace)
    assert list(parts) == ["forward", "backward", "update"]
    forward = parts["forward"]
    assert forward.gaps == pytest.approx(16e-6)  # 40 - 20 - 4
    micro = {name: round(seconds * 1e6, 6) for name, seconds in forward.self_time.items()}
    assert micro == {"aten::linear": 4, "aten::addmm": 14, "aten::copy_": 2, "aten::mean": 4}
    assert forward.longest() == ("aten::addmm", pytest.approx(14e-6))
    assert parts["backward"].gaps == pytest.approx(20e-6)  # a frame of autograd is no operator


def test_titles_say_what_was_recorded(trace):
    assert draw_step(trace).get_suptitle() == "Of 0.1 ms, backward takes 50 %"
    gaps = draw_gaps({"width 16": trace, "width 512": trace})
    title = "At width 16, 40 % of forward has no operator; at width 512, 40 %"
    assert gaps.get_suptitle() == title


def test_what_overlaps_is_drawn_once():
    steps = [
        Step(0, 2, 1.0, 1.1, [(1.0, 1.05)], [(1.02, 1.1)], [(1.0, 1.01)], []),
        Step(1, 2, 1.0, 1.1, [(1.08, 1.09)], [(1.09, 1.1)], [(1.0, 1.08)], []),
    ]
    figure = draw_ranks(steps)
    assert figure.get_suptitle() == "The same all-reduce takes 80 ms on rank 0, 10 ms on rank 1"
    filled = [box for box in figure.axes[0].patches if box.get_fill() and box.get_y() < 0.5]
    assert [round(box.get_width()) for box in filled] == [10, 40, 50]


def test_bars_end_at_100_per_cent():
    one = Shares(0, 3, 0.1, compute=0.2, communication=0.3, input=0.4, idle=0.1, hidden=0, waited=0)
    axes = draw_shares({"run": [one]}).axes[0]
    assert max(box.get_x() + box.get_width() for box in axes.patches) == pytest.approx(100)


def test_a_roof_is_dashed_and_a_measurement_is_solid():
    figure = draw_roofline(
        {"product": ([2, 20], [1e9, 5e9]), "norm": ([1], [2e9]), "update": ([0.5], [2e9])},
        {"machine": (100e9, 10e9)},
        "one core here",
    )
    labels = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert labels["update"][1] < labels["norm"][1] < 1  # GFLOP/s: below every point
    assert "measured on one core here" in figure.alt
    assert "measured on one core here" in figure.axes[0].get_xlabel()
    roof, product, *_ = figure.axes[0].lines
    assert (roof.get_linestyle(), product.get_linestyle()) == ("--", "-")
    assert list(roof.get_ydata())[1:] == [100, 100]  # GFLOP/s, from the balance on
    assert "machine has its balance at 10 FLOP per byte" in figure.alt
    assert "product reaches 5 GFLOP/s at 20" in figure.alt


def test_the_four_steps_of_the_question_are_equally_long():
    axes = draw_question().axes[0]
    ends = {}
    for box in axes.patches:
        ends[round(box.get_y(), 2)] = box.get_x() + box.get_width()
    assert list(ends.values()) == pytest.approx([10] * 4)
