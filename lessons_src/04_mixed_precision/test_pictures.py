"""The pictures of lesson 04 show what they are given."""

import matplotlib
import torch

from .formats import FORMATS, limits
from .pictures import FIELDS, draw_curves, draw_fields, draw_gradients, draw_limits, draw_question

matplotlib.use("Agg")


def test_a_bar_goes_from_the_smallest_to_the_largest_number() -> None:
    (axes,) = draw_limits({name: list(limits(name).values()) for name in FORMATS}).axes
    bars = sorted((round(b.get_x()), round(b.get_x() + b.get_width())) for b in axes.patches)
    assert (-14, 16) in bars  # fp16, and e5m2
    assert (-24, -14) in bars  # fp16's subnormal numbers
    assert (-149, -126) in bars
    assert [t.get_text() for t in axes.get_yticklabels()] == list(FORMATS)


def test_scaled_gradients_stand_further_to_the_right() -> None:
    gradients = 2.0 ** torch.linspace(-30, -20, 500)
    (axes,) = draw_gradients(gradients, (1, 2**16)).axes
    ends = [line.get_xdata()[0] for line in axes.lines]
    assert [round(end) for end in ends] == [-24, -14, 16]
    places = [polygon.get_xy()[:, 0][polygon.get_xy()[:, 1] > 0] for polygon in axes.patches]
    assert -31 < places[0].min() < places[0].max() < -19
    assert -15 < places[1].min() < places[1].max() < -3


def test_curves_count_their_steps_from_one() -> None:
    (axes,) = draw_curves(
        "Two curves fall", {"a": [4.0, 2.0], "b": [4.0, 2.0, 1.0]}, "step", "loss", base=2
    ).axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[1, 2], [1, 2, 3]]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()
    assert axes.get_yscale() == "log"


def test_fields_are_those_of_the_formats_a_box_a_bit() -> None:
    (axes,) = draw_fields().axes
    assert len(axes.patches) == 2 * sum(map(sum, FIELDS.values()))  # a fill and a frame
    for words, (_, e, m) in FIELDS.items():
        name = words.split(",")[0].split()[-1]
        if name in FORMATS:
            assert FORMATS[name][:2] == (e, m)


def test_the_question_shows_what_is_out_of_reach_and_the_next_numbers() -> None:
    reach, near = draw_question().axes
    (fp16, *_) = reach.patches
    assert (fp16.get_x(), round(fp16.get_x() + fp16.get_width())) == (-24, 16)
    at = [line.get_xdata()[0] for line in near.lines if max(line.get_ydata()) == 1.25]
    assert at == [1, 1 + 2**-7, 1 + 2**-6]
