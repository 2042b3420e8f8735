"""Simulated: gathered when needed, nothing overlaps; gathered one layer ahead, nearly all does."""

import itertools

import pytest

from . import timeline
from .exercises import schedule

UNITS = {"AllGather": 1.0, "Forward": 1.0, "Backward": 2.0, "ReduceScatter": 1.0}


def total(lines, seconds=UNITS):
    return max(span.end for span in timeline.simulate(lines, seconds))


def test_the_plain_schedule_waits_for_every_message():
    lines = schedule.zero3_schedule(4)
    assert total(lines) == 4 * (1 + 1) + 4 * (1 + 2 + 1) and timeline.whole_at_most(lines) == 1


def test_one_ahead_hides_all_but_the_ends():
    lines = timeline.one_ahead(4)
    # 12 of compute; the first gather of each pass and the last reduce-scatter are not hidden
    assert total(lines) == 12 + 3 and timeline.whole_at_most(lines) == 2
    assert schedule.Worker(4).follow(lines) is None


@pytest.mark.parametrize("lines", [schedule.zero3_schedule(4), timeline.one_ahead(4)])
def test_a_lane_does_one_thing_at_a_time_and_nothing_starts_early(lines):
    spans = timeline.simulate(lines, UNITS)
    for lane in timeline.LANES:
        own = [span for span in spans if span.lane == lane]
        assert all(a.end <= b.start for a, b in itertools.pairwise(own))
    starts = {str(span.line): span for span in spans}
    for span in spans:
        if type(span.line).__name__ == "ReduceScatter":
            assert span.start >= starts[str(span.line).replace("ReduceScatter", "Backward")].end


def test_seconds_of_a_layer():
    """2 bytes · 2e8 · 63/64 over 50 GB/s; 2 FLOP · 2e8 · 8192 at 400 TFLOP/s."""
    seconds = timeline.layer_seconds(2e8, 8192, 64, 50e9, 400e12)
    assert seconds["AllGather"] == pytest.approx(7.875e-3)
    assert seconds["Backward"] == pytest.approx(2 * 8.192e-3)
    rows, columns, _ = timeline.table({"mine": timeline.one_ahead(4)}, seconds)
    assert rows[0][1] == 2 and len(columns) == len(rows[0])
    assert timeline.short(schedule.s.AllGather(2)) == "G2"


def test_the_picture_names_the_faster_order_and_says_that_it_is_simulated():
    orders = {"plain": schedule.zero3_schedule(2), "ahead": timeline.one_ahead(2)}
    figure = timeline.draw(orders, UNITS)
    title = "ahead, a step takes 9000 ms instead of 12000 (simulated)"
    assert figure.get_suptitle() == title and "G0 ends at 1000" in figure.alt
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["compute", "messages"]
