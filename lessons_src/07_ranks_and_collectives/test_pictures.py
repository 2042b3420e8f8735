"""The picture of a ring shows what every chunk of every rank held."""

import matplotlib

from dtlib.scratch.ring import ring_all_reduce

from .pictures import draw_ring, trace_ring

matplotlib.use("Agg")


def test_trace_and_figure():
    trace = trace_ring(ring_all_reduce, ranks=3)
    assert trace.states == [
        [[1, 1, 1], [10, 10, 10], [100, 100, 100]],
        [[1, 1, 101], [11, 10, 10], [100, 110, 100]],
        [[1, 111, 101], [11, 10, 111], [111, 110, 100]],
        [[111, 111, 101], [11, 111, 111], [111, 110, 111]],
        [[111] * 3] * 3,
    ]
    assert trace.bytes_sent == [16, 16, 16]
    assert trace.columns() == ["step", "rank", "chunk 0", "chunk 1", "chunk 2"]
    assert trace.rows()[6] == ["reduce-scatter 2", 0, "1", "111", "101"]
    figure = draw_ring(trace)
    assert [panel.get_title() for panel in figure.axes][-1] == "all-gather 2"
    assert [t.get_text() for t in figure.axes[2].texts][:3] == ["1", "111", "101"]


def test_a_ring_of_one_has_a_start_only():
    trace = trace_ring(ring_all_reduce, ranks=1)
    assert trace.states == [[[1.0]]]


def on_a_copy(x):
    return ring_all_reduce(x.clone())


def test_a_ring_on_a_copy_is_told_and_the_courses_own_is_shown(capsys):
    trace = trace_ring(on_a_copy, ranks=3)
    assert "out of sight" in capsys.readouterr().out
    assert trace.states[1] == [[1, 1, 101], [11, 10, 10], [100, 110, 100]]
