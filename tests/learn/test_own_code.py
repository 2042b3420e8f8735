"""The text of an answer that passed: whole, so that it works without its notebook."""

import itertools
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtlib import learn
from dtlib.learn import own_code, session

pytestmark = pytest.mark.usefixtures("demo_lesson")
_number = itertools.count()


def cells(*texts: str) -> dict[str, Any]:
    """Run cells as a notebook does: one scope, in which each has a file name of its own."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for text in texts:
        file = f"<cell {next(_number)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
    return names


def again(function: Any) -> Any:
    return own_code.restored(own_code.whole(function, session.current()))


HELPERS = """
import math
import os.path as paths
import torch
from fractions import Fraction
from collections import deque as queue
from lesson.exercises import line

factor, table = 2, {"a": (1, 2.5), None: [True]}

def unused(x): return nothing

def even(n): return n == 0 or odd(n - 1)

def odd(n): return n != 0 and even(n - 1)

class Base:
    def step(self): return factor

class Doubler(Base):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def value(self):
        return self.x * self.step()

renamed = Doubler
"""


@pytest.mark.parametrize(("body", "value"), [
    ("math.sqrt(x) + paths.isabs('/')", 3.0),
    ("torch.stack([torch.tensor(x), torch.tensor(x)]).sum().item()", 8),
    ("Fraction(x, 8) + queue([x]).pop()", 4.5),
    ("factor * x + table['a'][1]", 10.5),
    ("even(x)", True),
    ("renamed(x).value()", 8),
    ("isinstance(Doubler(x), Base)", True),
    ("line(slope=x)['x']", "x"),
    ("f(x - 1) if x else 'the end'", "the end"),
])  # fmt: skip
def test_an_answer_takes_along_what_it_uses(body: str, value: Any) -> None:
    names = cells(HELPERS, f"@staticmethod\ndef g(): ...\ndef f(x, plus=0):\n    return {body}\n")
    text = own_code.whole(names["f"], session.current())
    assert own_code.restored(text)(4) == names["f"](4) == value
    assert "unused" not in text


@pytest.mark.parametrize(("text", "words"), [
    ("f = lambda x: x", "a lambda"),
    ("import functools\nf = functools.partial(int, base=2)", "is a partial and no function"),
    ("def g():\n    y = 1\n    def f(x): return x + y\n    return f\nf = g()", "made inside"),
    ("class A:\n    y = 1\ndef f(x): return x + A.y", "uses, A, whose text cannot be found"),
    ("import threading\nlock = threading.Lock()\ndef f(x):\n    with lock: return x",
     "uses lock, a lock that another cell made"),
    ("y = float('nan')\ndef f(x): return x + y", "uses y, a float"),
    ("y = list(range(9999))\ndef f(x): return x + y[0]", "uses y, a list"),
    ("class A:\n    pass\n_a = A()\ndef f(x): return _a", "uses _a, a A"),
    ("exec('def f(x): return x')", "whose text cannot be found"),
])  # fmt: skip
def test_an_answer_that_cannot_be_written_down_says_why(text: str, words: str) -> None:
    function = cells(text)["f"]
    with pytest.raises(own_code.NotKept, match=words):
        own_code.whole(function, session.current())
    assert words in own_code.keep(session.current(), "double", function)
    assert own_code.kept(session.current(), "double") is None


def test_two_things_of_one_name_are_not_mixed_up() -> None:
    one = cells("y = 1\ndef g(x): return x + y")
    other = cells("y = 2\ndef f(x): return g(x) + y")
    other["g"] = one["g"]
    with pytest.raises(own_code.NotKept, match="two different things that are called y"):
        own_code.whole(other["f"], session.current())


def test_a_class_of_a_cell_is_found_without_a_file() -> None:
    names = cells("class Answer:\n    def value(self, x):\n        return 2 * x\n", "y = 1")
    assert again(names["Answer"])().value(4) == 8


@pytest.fixture
def passed() -> Iterator[Path]:
    """The file of an answer that has passed its check in a notebook."""
    names = cells("half = 2", "def double(x):\n    return half * x\n")
    assert learn.check("double", names["double"])
    yield Path(".dtlib/answers/90_demo/double.py")


def test_a_pass_keeps_the_answer_and_a_refusal_leaves_it(passed: Path) -> None:
    text = passed.read_text()
    assert text == "half = 2\n\n\ndef double(x):\n    return half * x\n\n\nanswer = double\n"
    learn.check("double", cells("def double(x): return x")["double"])
    assert passed.read_text() == text


def test_a_later_pass_that_cannot_be_kept_leaves_no_older_answer(
    passed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = passed.read_text()
    assert learn.check("double", cells("double = lambda x: 2 * x")["double"])
    assert not passed.exists()
    passed.write_text(text)
    monkeypatch.setattr(own_code, "whole", lambda *_: 1 / 0)
    assert own_code.keep(session.current(), "double", None) == (
        "stopped dtlib with ZeroDivisionError"
    )
    assert not passed.exists()


def test_what_is_long_or_not_plain_is_not_written_out_to_see_that() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise AssertionError

    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    for value in (Odd(), [1, (Odd(),)], [Odd()] * 10**6, 10**5000, round_and_round):
        with pytest.raises(own_code.NotKept, match="uses y, a"):
            own_code._literal("y", value)
    for value in ([], {}, [[]] * 400, [1] * 660, {1: {2}, "a": (b"", None)}, "a" * 1900, -1j):
        assert own_code._literal("y", value) == repr(value)


def test_an_answer_that_breaks_while_it_is_read_has_passed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: Any) -> str:
        raise RuntimeError

    monkeypatch.setattr(own_code, "whole", breaks)
    assert learn.check("double", cells("def double(x): return 2 * x")["double"])
    from dtlib.learn import history

    entry = history.read("90_demo", "exercises", "double")
    assert entry["passed"] and entry["not_kept"] == "stopped dtlib with RuntimeError"
