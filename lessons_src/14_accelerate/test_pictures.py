"""The pictures say what was measured."""

from .pictures import draw_batches, draw_question, draw_rates


def test_what_comes_a_second_time_is_hatched_and_counted():
    figure = draw_batches([[[0, 1], [4, 0]], [[2, 3], [1, 2]]], [[[0, 1], [4]], [[2, 3]]])
    title = "To give every rank a full batch, 3 of 8 rows come a second time"
    assert figure.get_suptitle() == title
    assert "rank 1 gets 2 3 then 1 2" in figure.alt and "left for rank 1." in figure.alt
    hatched = [[bool(patch.get_hatch()) for patch in axes.patches] for axes in figure.axes]
    assert [sum(panel) for panel in hatched] == [3, 0]


def test_the_question_is_drawn_with_words():
    assert "Accelerate calls torch's DDP" in draw_question().alt


def test_measured_rates_are_solid():
    (axes,) = draw_rates({1: [0.1, 0.05, 0.0], 4: [0.1, 0.0, 0.0]}).axes
    assert [line.get_linestyle() for line in axes.lines] == ["-", "-"]  # dashed is simulated
