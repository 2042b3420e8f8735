"""Which rank a log of torchrun is of: its folder bears the local rank, which every node has.

torchrun writes `ID_XXXX/attempt_0/1/stderr.log` for its node's local rank 1. The global rank is
that number plus an offset, which is the same for all logs of one node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dtlib.errors import BadInput
from dtlib.measure.clinic import logs

_NODE = re.compile(r"(?:.*node[_-]?)?(\d+)", re.I)
_ATTEMPT = re.compile(r"attempt_(\d+)")
_RANK = re.compile(r"rank[_-]?(\d+)(?!.*rank)", re.I)  # rank3, rank_3, rank-3 …
_NUMBER = re.compile(r"[._-](\d+)(?:\.\w+)?$")  # at a name's end: a rank, or a job
# the output of Slurm (slurm-77.out, slurm-77_4.out), and of PBS, SGE and LSF (train.o77)
_JOB = re.compile(r"slurm|\bjob|\.[oe](ut|rr)?\d+$", re.I)
_TAIL = 2**20  # bytes of a log's end, where torch names the rank of an error


def is_job(path: Path) -> bool:
    """Return whether a file is named as batch systems name a job's output."""
    return not names_rank(path) and bool(_JOB.search(path.name))


def names_rank(path: Path) -> bool:
    """Return whether a number in a file's name is said to be a rank."""
    return bool(_RANK.search(path.name))


def rank_of(path: Path, first: dict[Path, int]) -> int | None:
    """Return the rank of a file by its name; `first` has the first rank of each node."""
    if (local := local_rank(path)) is not None:
        return first[path.parent.parent] + local
    found = _RANK.search(path.name)
    if found is None and not is_job(path):
        found = _NUMBER.search(path.name)
    return int(found[1]) if found else None


def local_rank(path: Path) -> int | None:
    """Return the local rank that torchrun's folder of a log is named after."""
    is_log = path.name in ("stdout.log", "stderr.log") and path.parent.name.isdecimal()
    return int(path.parent.name) if is_log else None


def earlier_attempts(paths: Iterable[Path]) -> set[Path]:
    """Return the folders of attempts that torchrun followed by another one."""
    folders = {path.parent.parent for path in paths if local_rank(path) is not None}
    numbers = {f: int(found[1]) for f in folders if (found := _ATTEMPT.fullmatch(f.name))}
    return {
        folder
        for folder, number in numbers.items()
        if any(other.parent == folder.parent and n > number for other, n in numbers.items())
    }


def offsets(paths: Iterable[Path], world_size: int | None) -> dict[Path, int]:
    """Return the first rank of each node, by the folder that holds the folders of its local ranks.

    A log tells it in which torch wrote the rank before a line (`[rank5]:`); otherwise the folder of
    a node may be named after the node's number.

    Raises
    ------
    BadInput
        When there are logs of several nodes, and of one of them nothing tells the rank.
    """
    nodes: dict[Path, list[Path]] = {}
    for path in paths:
        if local_rank(path) is not None:
            nodes.setdefault(path.parent.parent, []).append(path)
    known = {node: first for node, inside in nodes.items() if (first := _told(inside)) is not None}
    if len(nodes) <= 1:
        return known or dict.fromkeys(nodes, 0)
    size = 1 + max(local_rank(path) or 0 for inside in nodes.values() for path in inside)
    if len(known) < len(nodes):
        known = {**_numbered(list(nodes), size, world_size), **known}
    unknown = [node for node in nodes if node not in known]
    if unknown or len(set(known.values())) < len(nodes):
        raise _ambiguous(nodes, unknown or list(nodes))
    return known


def _told(inside: list[Path]) -> int | None:
    """Return the first rank of a node by what its logs say, if they agree."""
    found = set()
    for path in inside:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            named = logs.named(file.read().decode("utf-8", "replace"))
        if len(named) == 1:
            found.add(named.pop() - (local_rank(path) or 0))
    return found.pop() if len(found) == 1 and min(found) >= 0 else None


def _numbered(nodes: list[Path], size: int, world_size: int | None) -> dict[Path, int]:
    """Return the first ranks by the nodes' numbers in their paths, if each has its own number."""
    for depth in range(1, min(len(node.parts) for node in nodes) + 1):
        matches = [_NODE.fullmatch(node.parts[-depth]) for node in nodes]
        numbers = [int(found[1]) for found in matches if found]
        whole = set(numbers) == set(range(len(nodes)))
        fitting = (max(numbers, default=0) + 1) * size <= (world_size or 0)
        if len(set(numbers)) == len(nodes) and (whole or fitting):
            return {node: number * size for node, number in zip(nodes, numbers, strict=True)}
    return {}


def _ambiguous(nodes: dict[Path, list[Path]], unknown: list[Path]) -> BadInput:
    one = unknown[0]
    other = next(node for node in nodes if node != one)
    return BadInput(
        f"{one} and {other} both name their logs after the local rank, as torchrun does on every"
        " node and in every run, and nothing in them names the global rank; keep one run, and put"
        " each node's logs into a folder named after the node's number (GROUP_RANK), node0, node1"
        " and so on: `torchrun --log-dir logs/node1 …` on node 1."
    )
