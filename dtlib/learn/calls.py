"""Call an answer in this process, without ranks: limit its time and memory, catch exceptions."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from dtlib.learn.verdicts import Wrong, innermost, place_in_words, stopped_here

LIMIT = 2.0  # seconds of this process's own work, far more than any case needs
MOST = 2**30  # bytes by which an answer may raise this process's peak
TICK = 0.05  # seconds of work between two looks at both


class _TooLong(BaseException):
    """An answer was still running when its time ran out; `except Exception` does not catch it."""


class _TooLarge(BaseException):
    """An answer has taken too much memory, as a loop does that doubles a list."""


def ask(student: Callable[..., Any], *arguments: Any, case: str) -> Any:
    """Call an answer and return what it returns.

    Raises
    ------
    Wrong
        When it raised, was still running after `LIMIT` seconds, or took more than `MOST` bytes.
    """
    try:
        with _limited():
            return student(*arguments)
    except Wrong:  # raised by what the check passed in
        raise
    except _TooLong as late:
        frame = innermost(late)
        place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
        raise Wrong("loops", case, rank=0, n=1, place=f"in {place}") from None
    except _TooLarge as large:
        frame = innermost(large)
        place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
        raise Wrong("too_large", case, got=MOST / 2**30, place=place) from None
    except (Exception, SystemExit) as error:
        wrong = stopped_here(error, case)
        # using a None, such as an unused weight's gradient, may have a sentence of its own
        wrong.numbers["of_none"] = "NoneType" in str(error)
        raise wrong from error


def to_number(value: Any, case: str = "", *, nan: bool = False) -> float:
    """Read an answer's result as a number: from Python, NumPy, or a tensor of one element.

    With `nan=True`, nan counts as a number too.

    Raises
    ------
    Wrong
        When it is None or not a number.
    """
    if value is None:
        raise Wrong("none", case)
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        number = float(value.item() if hasattr(value, "item") else value)
    except Exception:  # whatever an object of the answer's own class raises here
        raise Wrong("kind", case, rank=0, n=1, got=type(value).__name__) from None
    if math.isnan(number) and not nan:
        raise Wrong("kind", case, rank=0, n=1, got="float that is nan")
    return number


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Stop the body when its time or memory runs out; outside the main thread nothing limits it.

    A limit that the system keeps (RLIMIT_AS) would be inherited by all that an answer starts.
    """
    clock = getattr(signal, "ITIMER_VIRTUAL", None)
    if clock is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    end, most = time.process_time() + LIMIT, _peak() + MOST

    def look(number: int, frame: FrameType | None) -> None:
        over = _TooLarge if _peak() > most else _TooLong if time.process_time() > end else None
        if over is not None:
            signal.setitimer(clock, 0)  # a second one must not come while this one is handled
            raise over

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(clock, min(TICK, LIMIT), min(TICK, LIMIT))
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(signal.SIGVTALRM, before)


def _peak() -> int:
    """Return the most memory that this process has held, in bytes."""
    import resource  # not on Windows, where no timer calls this

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
