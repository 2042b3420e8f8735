"""Wait for all ranks as long as it takes, since one of them may write or hash a file for minutes.

In a collective the others would wait no longer than its time-out, which is there to find a hang.
"""

from __future__ import annotations

import itertools
import time

from dtlib.ranks.dist import in_world

LONGEST = 3600.0  # seconds; after them the next collective's time-out ends what does not move
_times = itertools.count()


def wait_for_all() -> None:
    """Return when every rank has called this as often as this one; nothing in a world of one."""
    if not in_world():
        return
    import torch.distributed as dist

    # torch keeps the ranks' meeting place under a private name; what it holds is public
    store = dist.distributed_c10d._get_default_store()
    key, pause, end = f"dtlib waits {next(_times)}", 0.001, time.monotonic() + LONGEST
    arrived = store.add(key, 1)
    while arrived < dist.get_world_size() and time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
        arrived = store.add(key, 0)
