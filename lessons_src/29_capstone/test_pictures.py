"""The pictures say what was measured."""

from .pictures import draw_question, draw_spread


def test_the_spread_is_told_in_words() -> None:
    figure = draw_spread(
        {"strong": {1: [1.0] * 3, 2: [0.6, 0.8, 0.7]}, "weak": {1: [1.0], 2: [1.2]}}
    )
    assert figure.get_suptitle() == (
        "Your efficiency: strong 0.70 (0.60 to 0.80), weak 1.20 (1.20 to 1.20)"
    )
    assert "strong 0.70 (0.60 to 0.80); weak 1.20" in figure.alt
    dots = [line for line in figure.axes[0].get_lines() if len(line.get_ydata()) == 3]
    assert [sorted(line.get_ydata()) for line in dots] == [[1.0] * 3, [0.6, 0.7, 0.8]]


def test_the_question_says_that_simulated_numbers_are_marked() -> None:
    assert "dashed box for simulated numbers leads only to the request" in draw_question().alt
