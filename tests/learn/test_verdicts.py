"""Telling a stub from an answer, and one answer from another."""

# What `define` executes inherits it, and may name types that are not there.
from __future__ import annotations

import functools
import random

import numpy as np
import pytest

from dtlib.learn.verdicts import (
    COMMON,
    MESSAGE,
    Wrong,
    fingerprint,
    innermost,
    is_stub,
    sentence,
    stopped,
    stopped_here,
)


def define(text: str, name: str = "f"):
    namespace: dict = {"torch": None}
    exec(text, namespace)
    return namespace[name]


@pytest.mark.parametrize("text", [
    "def f(x): ...",
    'def f(x):\n    """Says what."""\n    ...  # your code here',
    "def f(x):\n    pass",
    "def f(x):\n    return None",
])  # fmt: skip
def test_a_body_that_does_nothing_is_a_stub(text: str) -> None:
    assert is_stub(define(text), None)


@pytest.mark.parametrize("text", [
    "def f(x):\n    return 5", "def f(x):\n    x += 1", "def f(x):\n    x.add_(1)\n    return",
    "def f(x):\n    return print(x)", "f = max",
])  # fmt: skip
def test_an_answer_that_returns_none_is_an_answer(text: str) -> None:
    assert not is_stub(define(text), None)


GIVEN = (
    "@decorate\ndef f(x: Tensor, n: int = SOME) -> Tensor:\n"
    '    """Doc."""\n    total = 0\n    for i in range(n):\n        ...  # your code here\n'
    "    return total\n"
)


def test_a_stub_with_given_lines_is_known_from_the_source() -> None:
    mine = define(GIVEN.replace("@decorate\n", "").replace(": Tensor", "").replace("SOME", "3")
                  .replace(" -> Tensor", ""))  # fmt: skip
    assert is_stub(mine, GIVEN)
    loop = "    total = 0\n    for i in range(n):\n        total += x\n    return total"
    assert not is_stub(define(f"def f(x, n=3):\n{loop}"), GIVEN)


def test_a_class_may_be_a_stub() -> None:
    text = "class F(Base):\n    def step(self): ...\n    def n(self): return 1"
    mine = define("Base = object\n" + text, "F")
    assert is_stub(mine, text)
    assert not is_stub(define("Base = object\n" + text.replace("...", "return 2"), "F"), text)


def test_a_stub_may_hold_a_class_with_a_base_and_decorated_methods() -> None:
    """Only what runs with the notebook's cell is left out: the inside of a function is its code."""
    text = (
        "def f(x):\n    class G(Base):\n        @staticmethod\n"
        "        def back(ctx: Any, g: Any = None) -> Any:\n            ...  # your code here\n\n"
        "    return G.apply(x)\n"
    )
    assert is_stub(define(text), text)
    assert not is_stub(define(text.replace("...", "return g")), text)


def test_a_fingerprint_sees_what_the_code_does_and_no_comment() -> None:
    one = define("def f(x):\n    return x + 1")
    same = define("# why\n\ndef f(x):\n    # because\n    return (x   + 1)")
    other = define("def f(x):\n    return x + 2")
    inner = define("def f(x):\n    return [y + 1 for y in x]")
    inner_other = define("def f(x):\n    return [y + 2 for y in x]")
    assert fingerprint(one) == fingerprint(same)
    assert len({fingerprint(f) for f in (one, other, inner, inner_other)}) == 4


def test_sentences_come_from_the_sidecar_and_else_from_the_common_ones() -> None:
    sidecar = {"mistakes": {"f": {"same": "You got\n{got:.1f}.\n"}}}
    assert sentence(sidecar, "f", Wrong("same", got=3)) == "You got 3.0."
    assert sentence({}, "f", Wrong("none")) == COMMON["none"]
    raised = Wrong("raised", error="ValueError", message="no", place="line 2 of f")
    assert "stopped with ValueError in line 2 of f: no." in sentence({}, "f", raised)
    assert all(text.endswith("?") for text in COMMON.values())


def test_a_message_of_several_lines_becomes_one_and_keeps_its_length() -> None:
    with pytest.raises(TypeError) as seeded:
        random.seed((0, 1))  # type: ignore[arg-type]
    assert "\n" in str(seeded.value)
    told = stopped_here(seeded.value).numbers["message"]
    assert told == "The only supported seed types are: None, int, float, str, bytes, and bytearray"
    assert len(stopped("E", "word\n" * MESSAGE, "line 1 of f").numbers["message"]) <= MESSAGE
    deep = "too large.\nException raised from f at a.cpp:1 (most recent call first):\nframe #0: g"
    assert stopped("E", deep, "line 1 of f").numbers["message"] == "too large"
    assert stopped("E", " \n", "line 1 of f").numbers["message"] == "no message"


@pytest.mark.parametrize("call", [lambda: np.random.seed(2**32), lambda: random.choice([])])
def test_an_error_inside_a_library_is_placed_in_the_students_line(call):
    with pytest.raises((ValueError, IndexError)) as found:
        call()
    assert " of <lambda>, `" in stopped_here(found.value).numbers["place"]


def test_the_place_of_an_error_is_in_the_answer_and_not_in_the_exercises_file() -> None:
    calls = {}
    for name, place in (("world", "/a/28_gpt2/exercises/world.py"), ("answer", "/tmp/cell.py")):
        namespace: dict = {}
        exec(compile("def call(inner):\n    return inner()\n", place, "exec"), namespace)
        calls[name] = namespace["call"]
    fails = functools.partial(divmod, 1, 0)
    with pytest.raises(ZeroDivisionError) as caught:
        calls["answer"](functools.partial(calls["world"], fails))
    assert innermost(caught.value).filename == "/tmp/cell.py"
