"""Lesson 27's pictures show what was measured, so that it can be read."""

from .pictures import draw_efficiency, draw_ladder


def rows(study: str, *efficiencies: tuple[float, float, float]) -> list[dict[str, object]]:
    return [
        {"study": study, "world_size": n, "efficiency": at, "efficiency_min": low,
         "efficiency_max": high}
        for n, (at, low, high) in enumerate(efficiencies, start=1)
    ]  # fmt: skip


def test_the_spreads_of_two_studies_do_not_lie_on_each_other() -> None:
    strong = rows("strong", (1, 1, 1), (0.625, 0.5, 0.75))
    weak = rows("weak", (1, 1, 1), (0.75, 0.25, 0.875))
    (axes,) = draw_efficiency([strong, weak], ["weak"]).axes
    spreads = {
        tuple(line.get_ydata()): (line.get_xdata()[0], line.get_color())
        for line in axes.lines
        if line.get_marker() == "_"
    }
    one, other = spreads[50.0, 75.0], spreads[25.0, 87.5]
    assert one[0] != other[0] and one[1] != other[1]
    lines = {
        line.get_color(): line.get_xdata()[-1] for line in axes.lines if line.get_marker() == "o"
    }
    assert {colour: x for x, colour in (one, other)} == lines  # each on its own line's end
    words = {text.get_text() for text in axes.texts}
    assert {"strong", "weak"} <= words


def test_a_share_above_the_peak_is_shown_whole_and_doubted() -> None:
    (axes,) = draw_ladder({"a": [50, 60], "b": [95, 120]}, 1.0, 100.0, "cpu").axes
    assert max(max(line.get_xdata()) for line in axes.lines) < axes.get_xlim()[1]
    title = axes.get_title(loc="left") or axes.get_title() or axes.figure.get_suptitle()
    assert "too low?" in title
    (axes,) = draw_ladder({"a": [50, 60]}, 1.0, 100.0, "cpu").axes
    assert "too low" not in (axes.get_title(loc="left") or axes.get_title())
