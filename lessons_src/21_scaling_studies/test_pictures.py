"""The pictures say what was measured, and what is noise."""

import pytest

from .pictures import draw_border, draw_question, draw_study


def row(ranks: int, middle: float) -> dict[str, float]:
    ends = {"efficiency_min": middle - 0.1, "efficiency_max": middle + 0.1}
    return {"world_size": ranks, "efficiency": middle, **ends}


@pytest.mark.parametrize("real", [True, False])
def test_an_efficiency_within_the_noise_is_called_so(real: bool) -> None:
    studies = {"strong": [row(1, 1.0), row(2, 0.6)], "weak": [row(1, 1.0), row(2, 0.9)]}
    figure = draw_study(studies, {"strong": True, "weak": real})
    word = "weak" if real else "weak, within noise"
    assert figure.get_suptitle() == f"On 2 ranks your efficiency is 0.60 (strong) and 0.90 ({word})"
    assert f"{word}: 0.90, between 0.80 and 1.00" in figure.alt


def test_the_border_is_read_from_the_curves() -> None:
    figure = draw_border({"flat": {8: 0.9, 16: 0.5}, "hidden": {8: 1.0, 16: 0.75}})
    assert "falls from 0.90 to 0.50 if nothing" in figure.get_suptitle()
    assert "hidden: 1.00 on 8 GPUs, 0.75 on 16" in figure.alt
    assert all(line.get_linestyle() == "--" for line in figure.axes[0].get_lines()[1:])


def test_the_question_is_drawn_with_words() -> None:
    assert "the same work, sooner" in draw_question().alt
