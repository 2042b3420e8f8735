"""How many ranks a study can use: all GPUs of the machine, or of the Slurm allocation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dtlib.ranks import allocation
from dtlib.ranks.devices import available_here


def gpus(env: Mapping[str, str] = os.environ) -> int:
    """Return the number of GPUs of the allocation, or of this machine; 0 if torch has none.

    A notebook in a job runs on the job's first node, and its ranks on all nodes.
    """
    here = available_here().cuda_devices
    nodes = allocation.capacity(env)
    return nodes.ranks if nodes and here else here


def counts(most: int, env: Mapping[str, str] = os.environ) -> list[int]:
    """Return those of 1, 2, 4 … and `most` that fit on the first node or spread over the nodes."""
    powers = [2**k for k in range(most.bit_length()) if 2**k < most]
    whole = allocation.capacity(env)
    if whole is None:
        return [*powers, most]
    return [n for n in (*powers, most) if n <= whole.counts[0] or allocation.spread(n, env)]
