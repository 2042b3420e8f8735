"""What tests of ranks share."""

from collections.abc import Iterator

import psutil
import pytest
from processes import gone, living


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """After each test only the warm processes are there: no rank, nothing that a rank started."""
    from dtlib.ranks.pool import pool

    before = {p.pid for p in psutil.Process().children(recursive=True)}
    yield
    warm = before | {spare.pid for spare in pool().spares}
    server = pool().server
    if server is not None:
        warm.add(server.popen.pid)
    own = psutil.Process()
    left = [p.pid for p in own.children(recursive=True) if p.pid not in warm]
    assert gone(left), [psutil.Process(p).cmdline() for p in living(left)]
