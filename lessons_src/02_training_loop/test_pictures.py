"""The pictures of lesson 02 show what they are given."""

import matplotlib
import pytest

from .pictures import draw_accumulation, draw_losses, draw_luck

matplotlib.use("Agg")


def test_the_bars_of_luck_overlap_on_few_pictures_alone() -> None:
    few, many = draw_luck((500, 5000)).axes
    for axes, overlap in ((few, True), (many, False)):
        before, after = axes.patches[0], axes.patches[2]
        assert (before.get_x() + before.get_width() > after.get_x()) == overlap
        assert before.get_x() + before.get_width() / 2 == pytest.approx(61)


def test_grad_fills_by_shares_of_the_pictures() -> None:
    (axes,) = draw_accumulation((16, 16, 8)).axes
    frames = [p for p in axes.patches if hasattr(p, "get_width")]
    filled = [p.get_width() for p in frames if p.get_y() == 1 - 0.35 and p.get_linewidth() == 0]
    assert [width / 2 for width in filled] == pytest.approx([0.4, 0.8, 1])


def test_losses_have_their_labels_and_a_mark() -> None:
    figure = draw_losses(
        "It falls",
        {"a": ([0.1, 1], [2, 1]), "b": ([0.1, 1], [2, 2])},
        3,
        "learning rate",
        (0.5, "here"),
    )
    (axes,) = figure.axes
    assert {t.get_text() for t in axes.texts} == {"a", "b", "here"}
    assert axes.get_xscale() == "log" and "from 2 to 1 nats" in figure.alt
