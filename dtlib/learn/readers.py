"""Turn what an answer returned into what is compared.

A reader takes the returned value, and raises `Wrong` if it cannot be compared; the check adds the
case. A reader with parameters is made by a call: `read=several(2, "two")`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dtlib.learn.calls import ask, to_number
from dtlib.learn.verdicts import Wrong

MOST = 100  # items taken from an answer that never ends


def number(value: Any) -> float:
    """A real number: from Python, NumPy, or a tensor of one element."""
    return to_number(value)


def plain(value: Any) -> Any:
    """The same with Python's numbers in place of NumPy's, also inside lists, tuples and dicts."""
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    numpy = sys.modules.get("numpy")  # whoever returns its numbers has loaded it
    return value.item() if numpy and isinstance(value, numpy.generic) else value


def several(count: int, key: str) -> Callable[[Any], tuple[float, ...]]:
    """A reader of `count` numbers; `key` is the sentence for anything else."""

    def read(value: Any) -> tuple[float, ...]:
        found = row_of(value, count, key)
        try:
            return tuple(map(to_number, found))
        except Wrong:  # it is one of the items that is None, say, and not the answer
            raise Wrong(key, got=shown(value)) from None

    return read


def row_of(value: Any, count: int, key: str) -> list[Any]:
    """The items of a list, a tuple, or an array or tensor with one dimension.

    Raises
    ------
    Wrong
        `none`, or `key` with `got` if it is anything else, or has not `count` items.
    """
    if value is None:
        raise Wrong("none")
    if not isinstance(value, (tuple, list)) and getattr(value, "ndim", 0) != 1:
        raise Wrong(key, got=shown(value))
    if len(value) != count:
        raise Wrong(key, got=shown(value))
    return list(value)


def one_of(allowed: Iterable[Any], key: str) -> Callable[[Any], Any]:
    """A reader of one of the `allowed` words; `key` is the sentence for anything else."""
    choice = tuple(allowed)

    def read(value: Any) -> Any:
        if value is None and None not in choice:
            raise Wrong("none")
        if value is not None and (not isinstance(value, str) or value not in choice):
            raise Wrong(key, got=shown(value))
        return value

    return read


def listed(value: Any, key: str) -> list[Any]:
    """The items of an iterable, up to `MOST`; `key` is the sentence for anything else."""
    if value is None:
        raise Wrong("none")
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise Wrong(key, got=type(value).__name__)
    return ask(lambda: list(itertools.islice(value, MOST)), case="")


def as_lists(value: Any) -> Any:
    """Arrays, tensors, sets and whatever else has items as lists of Python's numbers, at any depth.

    Of each at most `MOST` items are taken. Words, dicts and single objects stay what they are.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        return value
    return [as_lists(one) for one in ask(lambda: list(itertools.islice(value, MOST)), case="")]


def shown(value: Any, most: int = 40) -> str:
    """An object as sentences quote it; one that is cut short ends with an ellipsis."""
    return _cut(repr(value), most)


def words(value: Any, digits: int = 4) -> str:
    """A returned value as sentences print it by default: numbers with four digits."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.{digits}g}" if value % 1 else f"{value:.0f}"
    if isinstance(value, (list, tuple)):
        each = ", ".join(words(one, digits) for one in value[:12])
        return each + (" …" if len(value) > 12 else "")
    return _cut(str(value), 40)


def told_apart(got: Any, want: Any) -> tuple[str, str]:
    """Two different values in words, with as many digits as it takes to see the difference."""
    found = words(got), words(want)
    for digits in (6, 9, 15):
        if found[0] != found[1]:
            break
        found = words(got, digits), words(want, digits)
    return found


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
