"""Two ways to wait: for ranks that still work, and, for a limited time, for answers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from dtlib.ranks.dist import in_world

T = TypeVar("T")

LONGEST = 3600.0  # seconds; after that the next collective's time-out ends a rank that is stuck
_times = itertools.count()


def wait_for_all() -> None:
    """Return when every rank has called this as often as this one; at once in a world of one.

    One rank may write or hash a file for minutes; in a collective the others would wait no longer
    than its time-out, whose purpose is to find a hang.
    """
    if not in_world():
        return
    import torch.distributed as dist

    # torch keeps the ranks' store under a private name; the store's own interface is public
    store = dist.distributed_c10d._get_default_store()
    key, pause, end = f"dtlib waits {next(_times)}", 0.001, time.monotonic() + LONGEST
    arrived = store.add(key, 1)
    while arrived < dist.get_world_size() and time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
        arrived = store.add(key, 0)


def answers_within(seconds: float, calls: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """Make all calls at the same time, and return what each returned or raised, in order.

    Some system calls have no time-out of their own. The answer of a call that takes longer is a
    `TimeoutError`; the call is left in a thread that does not keep the process alive.
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
