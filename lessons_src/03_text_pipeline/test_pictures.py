"""Lesson 03's pictures show what their titles say."""

from __future__ import annotations

import torch

from .exercises.attend import may_attend
from .pictures import draw_mask, draw_question


def test_the_mask_is_drawn_pair_by_pair():
    figure = draw_mask(may_attend(torch.tensor([5, 6, 0, 7]), 0), [0, 0, 0, 1])
    assert figure.get_suptitle() == "The mask keeps 7 of 10 causal pairs"
    assert "2 triangles" in figure.alt
    full = [p for p in figure.axes[0].patches if p.get_facecolor()[3] > 0 and p.get_width() == 1]
    places = {(round(p.get_y() + 0.5), int(p.get_x())) for p in full}
    assert places == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 3)}


def test_the_question_is_drawn_with_words():
    assert "two windows of 8" in draw_question().alt
