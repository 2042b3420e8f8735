"""What tables and sentences look like in a notebook."""

import re

import pytest

from dtlib.learn.show import escape, say, table


@pytest.mark.parametrize(("text", "markup"), [
    ("it only *starts* sending", "it only <em>starts</em> sending"),
    ("not *two words*, one", "not <em>two words</em>, one"),
    ("2*n*m bytes, f(*args), **kwargs", "2*n*m bytes, f(*args), **kwargs"),
    ("`a *b* c` and *d*", "<code>a *b* c</code> and <em>d</em>"),
    ("x < y", "x &lt; y"),
])  # fmt: skip
def test_code_and_stress_in_a_sentence(text: str, markup: str) -> None:
    assert escape(text) == markup


def test_text_begins_on_the_left_and_numbers_end_on_the_right() -> None:
    rows = [["first", 1.5, "four words of text", "[1, 10]"], ["second", 1e-7, "2", "[100, 1]"]]
    markup = table(rows, ["", "s", "what", "after"]).markup
    sides = re.findall(r'<t[hd][^>]*style="text-align:(\w+)"', markup)
    assert sides == ["left", "right", "left", "right"] * 3  # a heading stands over its column


def test_a_table_without_headings_or_rows() -> None:
    assert "<thead>" not in table([["a", 1]]).markup
    assert "<th" in table([], ["a", "b"]).markup


@pytest.mark.parametrize(("value", "shown"), [
    (0.123456, "0.1235"), (12.3456, "12.35"), (999.96, "1000"), (12345.6, "12,346"),
    (1.5e-7, "1.5e-07"), (1234567, "1,234,567"), (3e20, "3e+20"), (True, "True"), (None, ""),
    (float("nan"), "nan"), (float("inf"), "inf"),
])  # fmt: skip
def test_numbers_of_a_table_have_sensible_digits(value: object, shown: str) -> None:
    assert f">{shown}<" in table([["a", value]]).markup


def test_a_call_in_a_sentence_is_code() -> None:
    said = 'You may look: learn.solution("ring"), or `learn.hint("ring")`.'
    assert escape(said) == (
        "You may look: <code>learn.solution(&quot;ring&quot;)</code>, "
        "or <code>learn.hint(&quot;ring&quot;)</code>."
    )


def test_a_refusal_stands_out_by_its_edge_and_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("dtlib.learn.show.show", seen.append)
    for mark in ("✗ Not yet.", "✓ Passed.", "Take-away."):
        say(mark, "it is so")
    edges = [re.search(r"border-left:4px solid ([^;]+);", one.markup)[1] for one in seen]
    assert edges == ["#cd1242", "#2fa385", "currentColor"]
    assert [one.text.split()[0] for one in seen] == ["✗", "✓", "Take-away."]
