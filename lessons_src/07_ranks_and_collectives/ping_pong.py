"""What a message costs: two ranks send one tensor to and fro, and half a round trip is a message.

R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel
Computing 20 (1994) 389-398: the time of a message is a latency and a time per byte.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist


def ping_pong(sizes: Sequence[int], repeats: int = 10) -> list[float]:
    """Time one message of each size between rank 0 and rank 1.

    Parameters
    ----------
    sizes
        Bytes, each at least 1.
    repeats
        Round trips per size, after one that is not counted.

    Returns
    -------
    list of float
        Seconds of the fastest message of each size: the one that nothing else disturbed.
    """
    times = []
    for size in sizes:
        x = torch.zeros(size, dtype=torch.uint8)
        times.append(min([_round_trip(x) for _ in range(repeats + 1)][1:]) / 2)
    return times


def _round_trip(x: torch.Tensor) -> float:
    dist.barrier()
    start = time.perf_counter()
    if dist.get_rank() == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        dist.recv(x, 0)
        dist.send(x, 0)
    return time.perf_counter() - start
