"""In the parent: what signals do to a launch."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from dtlib.ranks import dist
from dtlib.ranks.group import Group
from dtlib.ranks.processes import handled


@contextlib.contextmanager
def stop_signals(group: Group) -> Iterator[None]:
    """SIGTERM and SIGUSR1 ask the ranks to stop; a second one ends them at once.

    So does the first one after some seconds, when no rank ever asks whether it is to stop.

    An interrupt says where each rank was, and ends them.
    """

    def handler(*_: object) -> None:
        if group.stop_requested:
            raise KeyboardInterrupt
        group.stop_requested = True

    group.stop_requested = dist.stop_requested()  # a signal came before the launch
    with handled(handler, signal.SIGTERM, signal.SIGUSR1):
        yield
