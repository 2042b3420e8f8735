"""The pictures say what was measured."""

from .pictures import draw_question, draw_ways
from .timed import Timeline


def test_the_four_ways_and_who_hides():
    runs = {
        "flat": Timeline(10.0, [(10.0, 10.0, 18.0)]),
        "overlap": Timeline(10.0, [(5.0, 5.0, 9.0), (10.0, 10.0, 14.0)]),
    }
    figure = draw_ways(runs)
    title = "Only overlap sends while backward runs: it hides 50 % of the link's time"
    assert figure.get_suptitle() == title
    assert "the last of 2 messages arrives at 14 ms" in figure.alt
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["flat: backward", "flat: link", "overlap: backward", "overlap: link"]
    assert "backward ends" in [text.get_text() for text in figure.axes[0].texts]


def test_the_question_is_drawn_with_words():
    assert "each way" in draw_question().alt
