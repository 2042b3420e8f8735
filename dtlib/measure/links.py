"""How fast the ranks' links are: collectives of growing size, timed on all ranks.

Two bandwidths, with the names of NVIDIA's nccl-tests: *algbw* is the tensor's bytes over the time,
what a program sees; *busbw* counts the bytes that a rank sends in a ring, 2(N-1)/N of them in an
all-reduce, so that it does not depend on the number of ranks and can be held against a data sheet.

https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput
from dtlib.measure.timing import synchronizer
from dtlib.sim.collectives import ring_wire_bytes

if TYPE_CHECKING:
    import torch

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
SIZES = tuple(1024 * 4**k for k in range(9))  # 1 KiB to 64 MiB
WARM_UP = 3
LEAST, MOST = 5, 200  # repeats of a size


def measure(
    collective: str = "all_reduce", sizes: Sequence[int] = SIZES, seconds: float = 1.0
) -> list[dict[str, Any]]:
    """Time a collective at each size, as one of its ranks; every rank gets the same result.

    Parameters
    ----------
    collective
        One of `COLLECTIVES`.
    sizes
        Bytes of the whole tensor, rounded down to equal fp32 shards.
    seconds
        About how long to repeat each size.

    Returns
    -------
    list
        For each size: `size`, `repeats`, `seconds` (median over the repeats of the slowest rank),
        `spread` (the same of the fastest and the slowest repeat), `algbw` and `busbw` in bytes/s.
    """
    from dtlib.ranks import dist as ranks_dist

    world = ranks_dist.world()
    wait = synchronizer(world.device)
    return [_one(collective, size, seconds, world, wait) for size in sizes]


def _one(
    collective: str, size: int, seconds: float, world: Any, wait: Callable[[], None]
) -> dict[str, Any]:
    from dtlib.ranks import dist as ranks_dist

    n = world.world_size
    elements = max(1, size // 4 // n) * n
    call = _call(collective, elements, n, world.device)
    _timed(call, WARM_UP, wait)
    once = max(ranks_dist.gather_objects(statistics.median(_timed(call, WARM_UP, wait))))
    repeats = max(LEAST, min(MOST, int(seconds / once)))
    # a repeat is over when its slowest rank has finished
    of_ranks = ranks_dist.gather_objects(_timed(call, repeats, wait))
    slowest = [max(each) for each in zip(*of_ranks, strict=True)]
    middle, size = statistics.median(slowest), 4 * elements
    return {
        "size": size,
        "repeats": repeats,
        "seconds": middle,
        "spread": [min(slowest), max(slowest)],
        "algbw": size / middle,
        "busbw": ring_wire_bytes(collective, size, n) / middle,
    }


def _call(collective: str, elements: int, ranks: int, device: torch.device) -> Callable[[], None]:
    """Return a function that carries out the collective once, on tensors that stay the same."""
    import torch
    from torch import distributed as dist

    from dtlib.ranks import dist as ranks_dist

    whole = torch.zeros(elements, device=device)
    own = torch.zeros(elements // ranks, device=device)
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, own),
        "reduce_scatter": lambda: ranks_dist.reduce_scatter_sum(own, whole),
    }
    return calls[collective]


def _timed(call: Callable[[], None], repeats: int, wait: Callable[[], None]) -> list[float]:
    """Return the seconds of each repeat on this rank; before each, all ranks meet."""
    from torch import distributed as dist

    times = []
    for _ in range(repeats):
        dist.barrier()
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return times


def latency_and_bandwidth(
    rows: Sequence[dict[str, Any]], collective: str, ranks: int
) -> tuple[float, float]:
    """Return α in seconds a message and 1/β in bytes/s, from the smallest and the largest size.

    In a ring, N-1 messages follow one another, in an all-reduce twice as many. Without bytes only
    α is left; with many bytes nearly only β.

    Raises
    ------
    BadInput
        For a single rank, which sends nothing.
    """
    if ranks < 2:
        raise BadInput("one rank has no link to measure; use --ranks 2 or more.")
    messages = (2 if collective == "all_reduce" else 1) * (ranks - 1)
    small, large = min(rows, key=_size), max(rows, key=_size)
    return small["seconds"] / messages, large["busbw"]


def _size(row: dict[str, Any]) -> int:
    return int(row["size"])
