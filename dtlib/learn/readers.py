"""Turn what an answer returned into what is compared.

A reader takes the returned value, and raises `Wrong` if it cannot be compared; the check adds the
case. A reader with parameters is made by a call: `read=several(2, "two")`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dtlib.learn.calls import ask, to_number
from dtlib.learn.ratios import apart
from dtlib.learn.verdicts import Wrong

MOST = 100  # items taken from an answer that never ends


def number(value: Any) -> float:
    """A real number: from Python, NumPy, or a tensor of one element."""
    return to_number(value)


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


def shown(value: Any, most: int = 40) -> str:
    """An object as sentences quote it: cut short."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def both_in_words(got: Any, want: Any) -> dict[str, str]:
    """`got` and `want` as sentences print them; two numbers have digits enough to differ."""
    pair = words(got), words(want)
    if pair[0] == pair[1] and all(type(one) in (int, float) for one in (got, want)):
        pair = apart(got, want)
    return {"got": pair[0], "want": pair[1]}


def words(value: Any) -> str:
    """A returned value as sentences print it by default: numbers with four digits."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.4g}" if value % 1 else f"{value:.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(words, value[:12])) + (" …" if len(value) > 12 else "")
    return str(value)[:40]
