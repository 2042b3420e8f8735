"""Sentences with numbers in them: arithmetic, and nothing else."""

import pytest

from dtlib.errors import BadInput
from dtlib.learn.sentences import evaluate, fill


@pytest.mark.parametrize(("expression", "value"), [
    ("2 * (n - 1) / n", 1.5),
    ("n ** 2 - -1", 17),
    ("7 // 2 + 7 % 2", 4),
    ("1 < n < 5 and not n == 3", True),
    ("'big' if n > 3 else 'small'", "big"),
    ("counts[1] + counts[-1]", 7),
    ("names['a']", 8),
    ("max(1, n) + ceil(2.1) + len(counts) + log2(n)", 12),
    ("sum([1, 2, 3])", 6),
])  # fmt: skip
def test_arithmetic(expression: str, value: object) -> None:
    assert evaluate(expression, {"n": 4, "counts": [1, 2, 5], "names": {"a": 8}}) == value


@pytest.mark.parametrize("expression", [
    "__import__('os')", "n.real", "(lambda: 1)()", "[x for x in counts]", "open('/etc/passwd')",
    "9 ** 9 ** 9", "n; n", "n in counts",
])  # fmt: skip
def test_more_than_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(BadInput):
        evaluate(expression, {"n": 4, "counts": [1]})


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadInput, match="'m'; the known names are n"):
        evaluate("m + 1", {"n": 4})


def test_fill() -> None:
    assert fill("{n} ranks: {2 * (n - 1) / n:.2f} S, {{}}", {"n": 4}) == "4 ranks: 1.50 S, {}"
    assert fill("{a!r}", {"a": "x"}) == "'x'"
    assert fill("{x:.{digits}f}", {"x": 1.23456, "digits": 3}) == "1.235"
    assert fill("nothing", {}) == "nothing"


@pytest.mark.parametrize(
    ("got", "words"),
    [
        ("int", "an int"), ("ndarray", "an ndarray"), ("OrderedDict", "an OrderedDict"),
        (8, "an 8"), (11, "an 11"), (110, "a 110"), ("str", "a str"), ("one", "a one"),
    ],
)  # fmt: skip
def test_the_article_suits_what_is_filled_in(got, words) -> None:
    assert fill("You return a {got}.", {"got": got}) == f"You return {words}."
    assert fill("data {got}", {"got": got}) == f"data {got}"
