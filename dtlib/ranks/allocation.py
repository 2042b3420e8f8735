"""What a Slurm allocation has, from its variables: nodes, and the ranks, GPUs and CPUs of each."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from dtlib.ranks.environment import each_node, first_hosts


@dataclass(frozen=True)
class Spread:
    """Which nodes of the allocation take part, and how many ranks each of them runs."""

    hosts: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def ranks(self) -> int:
        return sum(self.counts)

    @property
    def most(self) -> int:
        """The number of ranks on the node that runs the most."""
        return max(self.counts)


def capacity(env: Mapping[str, str] = os.environ) -> Spread | None:
    """Return the allocation of several nodes that this process is in, otherwise `None`.

    A node has a rank for each of its GPUs or, without GPUs, for each of its tasks, however these
    were requested (`--ntasks`, `--ntasks-per-node`).
    """
    hosts = first_hosts(env.get("SLURM_JOB_NODELIST", ""))
    if "SLURM_JOB_ID" not in env or len(hosts) < 2 or shutil.which("srun") is None:
        return None
    gpus = gpus_per_node(env)
    counts = [gpus] * len(hosts) if gpus else each_node(env.get("SLURM_TASKS_PER_NODE", ""))
    if len(counts) != len(hosts):  # inside a step of one task, srun reports only that step's tasks
        counts = each_node(env.get("SLURM_NTASKS_PER_NODE", "1")) * len(hosts)
    return Spread(tuple(hosts), tuple(counts))


def spread(ranks: int | None, env: Mapping[str, str] = os.environ) -> Spread | None:
    """Return how `ranks` ranks spread over the allocation's nodes; `None`: they all run here.

    By default the ranks fill the allocation. Ranks that fit on the first node stay here, as does a
    number of ranks that the nodes cannot share evenly; whole nodes are filled first.
    """
    whole = capacity(env)
    if whole is None or ranks is None:
        return whole
    nodes = len(whole.hosts)
    if ranks <= whole.counts[0]:
        return None
    for filled in range(2, nodes + 1):
        first = Spread(whole.hosts[:filled], whole.counts[:filled])
        if first.ranks == ranks:
            return first
    return Spread(whole.hosts, (ranks // nodes,) * nodes) if ranks % nodes == 0 else None


def gpus_per_node(env: Mapping[str, str] = os.environ) -> int:
    """Return how many GPUs the job has on a node; 0 where Slurm does not say."""
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
        count = re.search(r"(\d+)$", env.get(name, ""))  # 4, or h100:4
        if count and int(count[1]):
            return int(count[1])
    return 0


def cpus_per_node(env: Mapping[str, str]) -> int:
    """Return how many CPUs the job has on each node, since srun gives a task only one by default.

    This is the count of the node with the fewest; 0 where Slurm does not say.
    """
    return min(each_node(env.get("SLURM_JOB_CPUS_PER_NODE", "")), default=0)
