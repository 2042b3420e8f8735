"""How the checks of lesson 04 call an answer: in this process, for so long, and no exception out.

None of its exercises needs ranks.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dtlib.learn.checking import Wrong, innermost, place_in_words, stopped_here

LIMIT = 3.0  # seconds of work, far more than any case needs


class TooLong(Exception):
    """An answer was still at work when its time was up."""


def ask(student: Callable[..., Any], *arguments: Any, case: str) -> Any:
    """Call an answer.

    Raises
    ------
    Wrong
        When it raised, or was still at work after `LIMIT` seconds of its own.
    """
    try:
        with _limited():
            return student(*arguments)
    except TooLong as late:
        frame = innermost(late)
        place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
        raise Wrong("loops", case, rank=0, n=1, place=f"in {place}") from None
    except (Exception, SystemExit) as error:
        # work on a None, as an unused weight's gradient is, has a sentence of its own in a check
        wrong = stopped_here(error if isinstance(error, Exception) else RuntimeError("exit"), case)
        wrong.numbers["of_none"] = "NoneType" in str(error)
        raise wrong from error


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise `TooLong` in what runs inside; a thread other than the main one has no clock."""
    clock = getattr(signal, "ITIMER_VIRTUAL", None)
    if clock is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _over)
    signal.setitimer(clock, LIMIT)  # of this process' own work: a busy machine takes none of it
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(signal.SIGVTALRM, before)


def _over(number: int, frame: FrameType | None) -> None:
    raise TooLong


def to_number(value: Any, case: str) -> float:
    """What an answer returned, as a number.

    Raises
    ------
    Wrong
        When it is None, or nothing that Python takes for a number.
    """
    if value is None:
        raise Wrong("none", case)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise Wrong("kind", case, got=type(value).__name__) from None
