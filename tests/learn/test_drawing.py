"""The visual language: what is drawn is counted and measured, in light and in dark."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.text import Text

from dtlib.errors import BadInput
from dtlib.learn import charts, drawing, figures

PAPERS = {"light": "#ffffff", "jupyterlab dark": "#111111", "site dark": "#14181e"}
COLOURS = {name: drawing.LOOKS[name].colour for name in
           ("weights", "gradients", "optimizer", "activations", "communication")}  # fmt: skip
# Machado et al. 2009, severity 1: what two kinds of colour-blind readers see of linear RGB
SEEN = {
    "all colours": np.eye(3),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                          [-0.01182, 0.04294, 0.968881]]),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                        [-0.003882, -0.048116, 1.051998]]),
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
ALT = "Four ranks, and what each of them holds."


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(float(linear(c) @ XYZ[1]) + 0.05 for c in (one, other))
    return high / low


def lab(seen: np.ndarray) -> np.ndarray:
    part = XYZ @ np.clip(seen, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(part > 0.008856, np.cbrt(part), 7.787 * part + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
@pytest.mark.parametrize("colour", [*COLOURS.values(), *figures.COLOURS])
def test_every_colour_stands_out_light_and_dark(colour, paper):
    assert contrast(colour, paper) >= 3  # WCAG 2, 1.4.11: graphical objects


@pytest.mark.parametrize("kind", COLOURS)
def test_text_on_a_fill_can_be_read(kind):
    assert contrast(COLOURS[kind], drawing.ink(kind)) >= 4.5  # WCAG 2, 1.4.3: text


@pytest.mark.parametrize("eye", SEEN)
def test_kinds_are_told_apart_by_colour_and_by_hatch(eye):
    for one, other in itertools.combinations(COLOURS.values(), 2):
        distance = np.linalg.norm(lab(SEEN[eye] @ linear(one)) - lab(SEEN[eye] @ linear(other)))
        assert distance > 20, (one, other)  # CIE 1976; 2.3 is just noticeable
    hatches = [drawing.LOOKS[kind].hatch for kind in COLOURS]
    assert len(set(hatches)) == len(hatches)


@pytest.mark.parametrize(("title", "alt"), [("", ALT), ("Says it", ""), ("A b c d e", "A b c d e")])
def test_a_picture_needs_a_title_and_words(title, alt):
    with pytest.raises(BadInput):
        drawing.canvas(title, alt)


def test_a_picture_reaches_a_page_as_svg_with_words_in_its_colours():
    figure, axes = drawing.canvas("A rank keeps <a quarter>", ALT)
    drawing.ranks(axes, 4)
    drawing.box(axes, 0, 1, kind="gradients", text="g")
    drawing.box(axes, 0, 2, text="a shard", part=(0, 0.5))  # its text stands on the page's white
    html = figure._repr_html_()
    assert repr(figure) == f"A rank keeps <a quarter>. {ALT}"
    assert f'<svg role="img" aria-label="A rank keeps &lt;a quarter&gt;. {ALT}"' in html
    assert "#000000" not in html and "#ffffff" not in html
    assert "currentColor" in html and figures.PAPER in html and "DejaVu" not in html
    assert "rank 3" in re.findall(r">([^<>]+)</text>", html)
    assert figure._repr_html_() == html  # a run makes the same page again
    names = re.findall(r'\bid="([^"]*)"', html)
    assert len(set(names)) == len(names)
    assert set(re.findall(r"url\(#([^)]*)\)", html)) <= set(names)
    other, axes = drawing.canvas("Another", ALT)
    drawing.box(axes, 0, 1, kind="gradients", text="g")
    assert not set(names) & set(re.findall(r'\bid="([^"]*)"', other._repr_html_()))


def test_a_shard_is_a_part_of_its_outline():
    _, axes = drawing.canvas("Shards", ALT)
    drawing.ranks(axes, 4, 8)
    filled = [drawing.box(axes, 2, r, 4, "weights", part=(r / 4, (r + 1) / 4)) for r in range(4)]
    assert [bar.get_x() for bar in filled] == [2, 3, 4, 5]
    assert {bar.get_width() for bar in filled} == {1}
    outlines = [patch for patch in axes.patches if patch not in filled]
    assert [(o.get_x(), o.get_width(), o.get_fill()) for o in outlines] == [(2, 4, False)] * 4
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"rank {r}" for r in range(4)]
    assert axes.yaxis_inverted()


def test_an_arrow_goes_from_rank_to_rank():
    _, axes = drawing.canvas("A message", ALT)
    drawing.ranks(axes, 2)
    arrow = drawing.send(axes, (0.5, 0), (0.5, 1), "1 MB", simulated=True)
    assert arrow._posA_posB == [(0.5, 0), (0.5, 1)]
    assert arrow.get_linestyle() == "--"
    assert [text.get_text() for text in axes.texts] == ["1 MB"]


@pytest.mark.parametrize("simulated", [False, True])
def test_a_timeline_has_bars_in_rows_and_says_what_was_simulated(simulated):
    _, axes = drawing.canvas("Time", ALT)
    spans = [(0, 0, 3, "forward", "F"), (1, 2, 6, "communication"), (0, 3, 5, "backward", "B")]
    drawing.timeline(axes, spans, simulated, unit="s")
    outlines = axes.patches[1::2]
    assert [(bar.get_x(), bar.get_width()) for bar in outlines] == [(0, 3), (2, 4), (3, 2)]
    assert [bar.get_y() + bar.get_height() / 2 for bar in outlines] == [0, 1, 0]
    assert {bar.get_linestyle() for bar in outlines} == {"--" if simulated else "-"}
    assert axes.get_xlabel() == ("time, s (simulated)" if simulated else "time, s")


def test_an_unknown_kind_is_named():
    _, axes = drawing.canvas("Kinds", ALT)
    with pytest.raises(BadInput, match="unknown kind 'grads': use one of weights"):
        drawing.box(axes, 0, 0, kind="grads")


def overlapping(figure, axes):
    figure.draw_without_rendering()
    boxes = [(t.get_text(), Text.get_window_extent(t)) for t in axes.texts]
    boxes += [(t.get_text(), t.get_window_extent()) for t in axes.get_xticklabels()]
    shown = [(text, box) for text, box in boxes if text]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(shown, 2) if x.overlaps(y)]


@pytest.mark.parametrize("ends", [(1, 1, 1, 1), (1, 1.01, 2, 2.01), (0, 0, 0, 3), (4, 3, 2, 1)])
def test_labels_at_the_ends_of_lines_do_not_overlap(ends):
    figure, axes = drawing.canvas("Lines end together", ALT)
    lines = {f"line {i}": ([1, 2, 3], [3, 2, end]) for i, end in enumerate(ends)}
    charts.lines(axes, lines, simulated=["line 1"])
    assert overlapping(figure, axes) == []
    said = [text.get_text() for text in axes.texts]
    assert sorted(said) == ["line 0", "line 1 (simulated)", "line 2", "line 3"]
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--", "-", "-"]
    figure.draw_without_rendering()
    assert all(t.get_window_extent().x1 <= figure.bbox.x1 for t in axes.texts)


def test_labels_move_as_little_as_needed():
    assert charts.apart([0, 100], 10) == [0, 100]
    assert charts.apart([50, 50], 10) == [45, 55]
    assert charts.apart([50, 50, 51], 10) == pytest.approx([40 + 1 / 3, 50 + 1 / 3, 60 + 1 / 3])
    assert charts.apart([1, 1], 10, low=0) == [0, 10]


def test_stacks_add_up_and_meet_a_limit():
    figure, axes = drawing.canvas("A model does not fit", ALT)
    parts = {"1B": {"weights": 2, "optimizer": 12}, "7B": {"weights": 14, "optimizer": 84}}
    charts.stacks(axes, parts, "GB", (80, "an 80 GB card"))
    tops = [patch.get_y() + patch.get_height() for patch in axes.patches[::2]]
    assert tops == [2, 14, 14, 98]
    said = [text.get_text() for text in axes.texts]
    assert sorted(said) == ["14", "98", "an 80 GB card", "optimizer", "weights"]
    assert axes.lines[0].get_ydata()[0] == 80 and axes.get_ylabel() == "GB"
    assert overlapping(figure, axes) == []


def test_bits_are_to_scale():
    figure, axes = drawing.canvas("bf16 reaches as far as fp32", ALT)
    charts.bits(axes, {"fp32": (1, 8, 23), "bf16": (1, 8, 7)})
    cells = axes.patches[::2]
    assert len(cells) == 48 and {cell.get_width() for cell in cells} == {1}
    assert [text.get_text() for text in axes.texts][:2] == ["exponent 8", "mantissa 23"]
    assert overlapping(figure, axes) == []


def test_a_heat_map_crosses_out_what_does_not_fit():
    _, axes = drawing.canvas("What fits", ALT)
    charts.heat(axes, [[40, 80], [81, 160]], [1, 2], [4, 8], limit=80)
    cells = axes.patches[::2]
    assert [cell.get_hatch() for cell in cells] == ["", "", "xxx", "xxx"]
    assert [cell.get_facecolor()[3] for cell in cells[:2]] == pytest.approx([0.175, 0.35])


def test_a_waterfall_ends_where_its_causes_lead():
    figure, axes = drawing.canvas("Fewer bytes explain it", ALT)
    charts.waterfall(axes, ("fp32", 100), [("bytes", -40), ("padding", 5)], "fp16", "ms")
    bars = [(p.get_x(), p.get_x() + p.get_width()) for p in axes.patches[::2]]
    assert bars == [(0, 100), (60, 100), (60, 65), (0, 65)]
    assert [text.get_text() for text in axes.texts] == ["100", "-40", "+5", "65"]
    assert overlapping(figure, axes) == []


def test_a_waterfall_of_factors_multiplies():
    _, axes = drawing.canvas("Two causes", ALT)
    charts.waterfall(axes, ("fp32", 10), [("fp16", 2), ("padding", 0.5)], "now", "images/s", True)
    assert [text.get_text() for text in axes.texts] == ["10", "×2", "×0.5", "10"]
    assert axes.get_xscale() == "log"


def test_a_figure_of_pyplot_gets_words_from_its_labels():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4.5], label="two ranks")
    axes.set(xlabel="step", ylabel="loss", title="Losses fall")
    words = "Figure. Losses fall; loss over step; two ranks: from 3 to 4.5"
    assert figures.described(figure) == words
    assert f'aria-label="{words}"' in figures.markup(figure)
    figure.alt = "My words"
    assert 'aria-label="My words"' in figures.markup(figure)
