"""Questions that may have no answer, asked at once and not waited for without end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def answers_within(seconds: float, calls: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """Make calls at once, and return what each returned or raised, in their order.

    Some system calls have no time-out of their own. What takes longer answers with a
    `TimeoutError`; it is left behind in a thread that does not keep the process alive.
    """
    late = TimeoutError(f"no answer within {seconds:g} s")
    answers: list[T | BaseException] = [late] * len(calls)

    def ask(number: int) -> None:
        try:
            answers[number] = calls[number]()
        except BaseException as error:
            answers[number] = error

    threads = [
        threading.Thread(target=ask, args=(number,), daemon=True) for number in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(answers)
