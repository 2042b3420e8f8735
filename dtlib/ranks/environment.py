"""This process's place among the ranks, as torchrun or srun gives it in the environment."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dtlib.errors import BadInput, DtlibError

HASH_SEED = "PYTHONHASHSEED"
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

JOB_ENDED = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "BOOT_FAIL", "DEADLINE",
)  # fmt: skip
"""States of a Slurm job that no longer runs (https://slurm.schedmd.com/squeue.html)."""


@dataclass(frozen=True)
class EnvWorld:
    """A place in a world that another program started; `source` is torchrun, srun or launch."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    node_rank: int
    master_addr: str
    master_port: int
    source: str

    def variables(self) -> dict[str, str]:
        """Return torchrun's variables, from which every framework reads its place."""
        return {
            "RANK": str(self.rank), "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(self.world_size), "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "GROUP_RANK": str(self.node_rank),
            "MASTER_ADDR": self.master_addr, "MASTER_PORT": str(self.master_port),
        }  # fmt: skip


def environment_world(env: Mapping[str, str] = os.environ) -> EnvWorld | None:
    """Return the world that torchrun or srun started this process in, otherwise `None`.

    torchrun's variables win, since torchrun may itself run as a Slurm step. A Slurm step of one
    task is not a world: it is how a notebook or a batch script runs inside an allocation.

    Raises `BadInput` when the variables are incomplete, contradict one another, or several
    torchruns share a node.
    """
    place = None
    if "RANK" in env:
        _refuse_torchrun_per_task(env)
        place = _torchrun_world(env)
    elif "SLURM_PROCID" in env and _place(env, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")[1] > 1:
        place = _slurm_world(env)
    if place and place.local_rank >= min(place.local_world_size, place.world_size):
        raise BadInput(
            f"the variables of {place.source} contradict each other: local rank {place.local_rank}"
            f" of {place.local_world_size} on this node, in a world of {place.world_size}; start"
            f" the command with {place.source}, or unset them."
        )
    return place


def _place(env: Mapping[str, str], name: str, total: str) -> tuple[int, int]:
    """Return a rank and the size of its world, from these variables."""
    rank, size = _number(env, name), _number(env, total, 1, least=1)
    if rank >= size:
        raise BadInput(
            f"{name}={rank} is outside a world of {total}={size}, since ranks count from 0; start"
            f" the command with {'torchrun' if name == 'RANK' else 'srun'}, or unset {name}."
        )
    return rank, size


def _torchrun_world(env: Mapping[str, str]) -> EnvWorld:
    missing = [name for name in TORCHRUN if name not in env]
    if missing:
        raise BadInput(
            f"RANK is set, but {', '.join(missing)} is not; start the script with torchrun, "
            "or unset RANK."
        )
    rank, size = _place(env, "RANK", "WORLD_SIZE")
    local_size = _number(env, "LOCAL_WORLD_SIZE", size, least=1)
    return EnvWorld(
        rank, _number(env, "LOCAL_RANK", rank % local_size), size, local_size,
        _number(env, "GROUP_RANK", rank // local_size),
        env["MASTER_ADDR"], _number(env, "MASTER_PORT"), "torchrun",
    )  # fmt: skip


def _refuse_torchrun_per_task(env: Mapping[str, str]) -> None:
    """Refuse several torchruns on a node: each would start all ranks of the node again."""
    if "SLURM_STEP_NUM_TASKS" not in env and "SLURM_STEP_TASKS_PER_NODE" not in env:
        return  # torchrun in a batch script, which runs once
    tasks = max(_tasks_per_node(env))
    if tasks > 1:
        raise BadInput(
            f"Slurm started torchrun {tasks} times on a node, but each torchrun starts all ranks "
            "of its node itself; use --ntasks-per-node=1 with torchrun."
        )


def _slurm_world(env: Mapping[str, str]) -> EnvWorld:
    rank, size = _place(env, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    node = _number(env, "SLURM_NODEID", 0)
    local_sizes = _tasks_per_node(env)
    local_size = local_sizes[node] if node < len(local_sizes) else local_sizes[-1]
    hosts = first_hosts(env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", ""))
    one_host = local_size == size
    address = env.get("MASTER_ADDR") or (hosts[0] if hosts and not one_host else "127.0.0.1")
    if not one_host and "MASTER_ADDR" in env:
        refuse_loopback(address, hosts)
    # Below the range of ephemeral ports, and a different one for each step of a job.
    job, step = _number(env, "SLURM_JOB_ID", 0), _number(env, "SLURM_STEP_ID", 0)
    port = _number(env, "MASTER_PORT", 12000 + (job * 17 + step) % 18000)
    local_rank = _number(env, "SLURM_LOCALID")
    return EnvWorld(rank, local_rank, size, local_size, node, address, port, "srun")


def _tasks_per_node(env: Mapping[str, str]) -> list[int]:
    """Return how many tasks of this step each node has."""
    counts = each_node(env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_NTASKS_PER_NODE", ""))
    if counts:
        return counts
    nodes = _number(env, "SLURM_STEP_NUM_NODES", 1, least=1)
    return [max(1, _number(env, "SLURM_STEP_NUM_TASKS", 1) // nodes)]


def each_node(text: str) -> list[int]:
    """Expand Slurm's `4(x2),1`, tasks or CPUs by node, into [4, 4, 1]."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts


def first_hosts(nodelist: str) -> list[str]:
    """Expand Slurm's `n[1-2,05],login` into ["n1", "n2", "n05", "login"]."""
    hosts: list[str] = []
    for prefix, numbers, suffix in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?([^,\[]*)", nodelist):
        if not numbers:
            hosts.append(prefix + suffix)
            continue
        for part in numbers.split(","):
            low, _, high = part.partition("-")
            width = len(low)
            hosts += [
                f"{prefix}{n:0{width}d}{suffix}" for n in range(int(low), int(high or low) + 1)
            ]
    return hosts


def start_limit(env: Mapping[str, str] = os.environ) -> float:
    """Return how many seconds a process may take to load torch and meet the others.

    DTLIB_START_LIMIT sets this, for a file system that is slow to deliver Python's files.

    Raises
    ------
    BadInput
        When it is not a number above 0.
    """
    said = env.get("DTLIB_START_LIMIT") or "120"
    if not re.fullmatch(r"\d+(\.\d+)?", said) or not float(said):
        raise BadInput(f"DTLIB_START_LIMIT={said!r} is not a time; use seconds above 0.")
    return float(said)


def hash_seed(env: Mapping[str, str] = os.environ) -> str:
    """Return the PYTHONHASHSEED that all ranks share: the user's number, otherwise 0.

    By default every process draws a seed of its own, and so orders a set of names in its own way:
    buffers that a model registers in that order would be swapped between ranks.
    """
    said = env.get(HASH_SEED, "")
    return said if said.isdecimal() else "0"


def meeting_place(place: EnvWorld, timeout: float) -> Any:
    """Return the store at `MASTER_ADDR:MASTER_PORT`, as torch's `init_process_group` makes it.

    Here every rank waits for all others; in torch's rendezvous only the server waits.

    Raises
    ------
    DtlibError
        When not all ranks have arrived within `timeout` seconds.
    """
    from torch.distributed import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    limit, names = timedelta(seconds=timeout), [f"came {n}" for n in range(place.world_size)]
    store = None
    try:
        server, _, _ = next(rendezvous("env://", timeout=limit))
        server.set_timeout(limit)
        store = PrefixStore("default_pg", server)
        store.set(names[place.rank], "")
        store.wait(names, limit)
    except RuntimeError as error:
        if not re.search("timed out|timeout", str(error), re.I):
            raise
        missing = [n for n, name in enumerate(names) if store and not store.check([name])]
        who = f"rank {', '.join(map(str, missing[:8]))}" if missing else "another rank"
        raise DtlibError(
            f"Rank {place.rank} waited {timeout:g} s at {place.master_addr}:{place.master_port} "
            f"for all {place.world_size} ranks: {who} is still loading Python's files "
            "(DTLIB_START_LIMIT=600 waits longer), has ended, or does not reach that address."
        ) from error
    return store


def refuse_loopback(address: str, hosts: Sequence[str]) -> None:
    """Refuse a meeting place that each of several hosts would take to be itself.

    Raises `BadInput` when `address` is a loopback address, or a name of one (as a host's own name
    is in the `/etc/hosts` of some systems).
    """
    try:
        number = socket.gethostbyname(address)
    except OSError as error:
        raise BadInput(
            f"the meeting place {address} of {', '.join(hosts)} cannot be resolved ({error}); set "
            f"MASTER_ADDR to a name or address of {hosts[0]} that all of them can resolve."
        ) from None
    if number.startswith("127."):
        means = "" if number == address else f" means {number}, which"
        raise BadInput(
            f"MASTER_ADDR={address}{means} is a loopback address: on it each host reaches only "
            f"itself, so the {len(hosts)} hosts {', '.join(hosts)} would never meet; unset it, or "
            f"set it to an address of {hosts[0]} that all of them can reach."
        )


def _number(
    env: Mapping[str, str], name: str, default: int | None = None, *, least: int = 0
) -> int:
    text = env.get(name, "")
    if not text and default is not None:
        return default
    most = 65535 if name == "MASTER_PORT" else 2**31 - 1
    if not (text.isdecimal() and least <= int(text) <= most):
        wrong = f"={text!r} is not a whole number from {least} to {most}" if text else " is not set"
        raise BadInput(
            f"{name}{wrong} in the environment; start the command with torchrun or srun, which"
            " set it, or unset their variables."
        )
    return int(text)
