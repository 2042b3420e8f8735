"""Over how many ranks a study may spread: all GPUs of the machine, or of the Slurm allocation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dtlib.ranks import allocation
from dtlib.ranks.devices import available_here


def gpus(env: Mapping[str, str] = os.environ) -> int:
    """Return the GPUs of all nodes of the allocation, else of this machine; 0 where torch has none.

    A notebook of a job runs on the job's first node, and its ranks on all of them.
    """
    here = available_here().cuda_devices
    nodes = allocation.capacity(env)
    return nodes.ranks if nodes and here else here


def counts(most: int, env: Mapping[str, str] = os.environ) -> list[int]:
    """Return 1, 2, 4 … and `most`: those numbers of ranks that the nodes can share among them."""
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    whole = allocation.capacity(env)
    if whole is None:
        return [*powers, most]
    return [n for n in (*powers, most) if n <= whole.counts[0] or allocation.spread(n, env)]
