"""The picture of a ring shows what every chunk of every rank held."""

from dtlib.scratch.ring import ring_all_reduce

from .boards import draw_collectives, draw_node, draw_question
from .pictures import draw_ring, step_ring, trace_ring


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
    assert trace.rows()[6] == ["reduce-scatter, s=1", 0, "1", "111", "101"]
    figure = draw_ring(trace)
    assert [panel.get_title() for panel in figure.axes][-1] == "all-gather\ns=1"
    assert [t.get_text() for t in figure.axes[2].texts][:3] == ["1", "111", "101"]
    moved = step_ring(trace).text.splitlines()
    assert len(moved) == 6
    assert moved[2].endswith(
        "What travelled: chunk 2 from rank 2 to rank 0; chunk 0 from rank 0 to rank 1; "
        "chunk 1 from rank 1 to rank 2."
    )
    assert "all-gather, s=1: 9 of 9 chunks are finished sums" in moved[-1]


def test_a_ring_of_one_has_a_start_only():
    trace = trace_ring(ring_all_reduce, ranks=1)
    assert trace.states == [[[1.0]]]


def on_a_copy(x):
    return ring_all_reduce(x.clone())


def test_a_ring_on_a_copy_is_told_and_the_courses_own_is_shown(capsys):
    trace = trace_ring(on_a_copy, ranks=3)
    assert "out of sight" in capsys.readouterr().out
    assert trace.states[1] == [[1, 1, 101], [11, 10, 10], [100, 110, 100]]


def test_the_collectives_are_drawn_as_they_were_measured():
    shared = {
        "before": ([1], [10], [100]),
        "all_reduce": ([111], [111], [111]),
        "gather": ([1, 10, 100], [0, 0, 0], [0, 0, 0]),
        "before, a list": ([1, 2, 3], [10, 20, 30], [100, 200, 300]),
        "reduce_scatter": ([111], [222], [333]),
    }
    figure = draw_collectives(shared)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["all_reduce", "gather", "reduce_scatter"]
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert texts.count("?") == 0 and texts.count("0") == 6
    assert "reduce_scatter: rank 0 has 111, rank 1 has 222, rank 2 has 333" in figure.alt


def test_pictures_have_words():
    assert "63" in draw_question().alt
    assert "450 GB/s" in draw_node().alt
