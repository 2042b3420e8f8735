"""Call an answer as if each call ran in a process of its own, where `hash` of a text differs.

Python salts the hash of a text in every process. The processes that a check can use share one salt,
so an answer that makes a seed of such a hash would look right in a check, and be wrong on ranks.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dtlib.learn.alike import alike
from dtlib.learn.readers import shown
from dtlib.learn.verdicts import Wrong, machinery

T = TypeVar("T")
_plain = hash


@contextlib.contextmanager
def process(number: int) -> Iterator[list[Any]]:
    """Let `hash` of a text, in an answer's own lines, be that of another process.

    Yields
    ------
    list
        What contained a text and was hashed. Sets and dicts, which hash in C, stay as they are.
    """
    asked: list[Any] = []

    def salted(thing: Any, /) -> int:
        if machinery(sys._getframe(1).f_code.co_filename):
            return _plain(thing)
        key = _with_salt(thing, number)
        if key is not thing:
            asked.append(thing)
        return _plain(key)

    before, builtins.hash = builtins.hash, salted  # type: ignore[assignment]
    try:
        yield asked
    finally:
        builtins.hash = before


def _with_salt(thing: Any, number: int) -> Any:
    """The thing itself, or where there is a text in it, something whose hash has salt, too."""
    if isinstance(thing, (str, bytes)):
        return number, thing
    if type(thing) in (tuple, frozenset):
        parts = [_with_salt(part, number) for part in thing]
        if any(a is not b for a, b in zip(parts, thing, strict=True)):
            return type(thing)(parts)
    return thing


def each_in_a_process(call: Callable[[int], T], count: int) -> list[T]:
    """What `call(0)`, `call(1)`, … return, each as in a process of its own.

    Raises
    ------
    Wrong
        `salted`, if they return something else when all are in one process.
    """
    found, texts = [], []
    for k in range(count):
        with process(k + 1) as asked:
            found.append(call(k))
        texts += asked
    if not texts:
        return found
    with process(0):
        together = [call(k) for k in range(count)]
    if alike(found, together, 0):
        return found
    raise Wrong("salted", text=shown(texts[0]))
