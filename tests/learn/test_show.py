"""What tables and sentences look like in a notebook."""

import re

import pytest

from dtlib.learn.show import escape, table


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
