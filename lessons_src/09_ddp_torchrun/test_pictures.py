"""The pictures say what was measured, and the opening one agrees with torchrun."""

from .pictures import draw_apart, draw_means, draw_question


def test_the_last_rank_is_local_rank_3_of_node_1():
    alt = draw_question().alt
    assert "RANK 7 has LOCAL_RANK 3 and GPU 3 of node 1" in alt
    assert "WORLD_SIZE=8, LOCAL_WORLD_SIZE=4, MASTER_ADDR=node-0" in alt


def test_means_over_ranks():
    figure = draw_means([[1, 0, 2.5, 2.5], [3, 1, 2.75, 2.5]])
    assert "goes from 2.5 to 2.75, the exact mean stays at 2.5" in figure.alt


def test_a_distance_of_0_is_drawn_at_the_least():
    figure = draw_apart({"same": [0.0, 0.0], "other": [1e-7, 1e-5]})
    assert "same: 0e+00 at step 1" in figure.alt and "other: 1e-07 at step 1" in figure.alt
    assert min(figure.axes[0].lines[0].get_ydata()) == 1e-17
