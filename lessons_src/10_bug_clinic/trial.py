"""A trial of cures: programs run on some ranks, each case in a process group of its own.

All programs share one launch. A program that stops, or waits for too long, ends its own trial and
disturbs no other one, unless it kills its process: then the rest is launched once more.
"""

from __future__ import annotations

import pickle
import signal
import tempfile
import traceback
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dtlib.ranks.launcher import run_ranks
from dtlib.ranks.outcome import PEER_GONE, doing, failed_in_collective

from .cases import cases
from .ward import SECONDS, free_port, on_rank
from .watch import Seen, watched

SIZES = (3, 4)  # that of the notebook first
# more where a number in the text may be right for both
MORE = dict.fromkeys(("p07", "p10", "p15"), (*SIZES, 2, 5))
BUSY = SECONDS + 2  # seconds that a program may take, whether it waits or computes
PATIENCE = 60.0  # seconds that ranks wait for each other between programs
LIMIT = 300.0  # of a launch, for a program that nothing else ends
RAN, WAITED, GONE, RAISED = "ran", "waited", "peer gone", "raised"

Program = tuple[str, str]  # a patient and its text
# By number of ranks, case, and turn (the first case runs twice): what each rank did.
Trial = dict[tuple[int, int, int], list[dict[str, Any]]]


def trials(programs: Sequence[Program]) -> dict[Program, Trial]:
    """Run programs, and return what became of each."""
    found: dict[Program, Trial] = {}
    left = list(programs)
    while left:
        ranks = max(max(MORE.get(name, SIZES)) for name, _ in left)
        with tempfile.TemporaryDirectory() as folder:
            job = (left, [free_port() for _ in left], folder)
            ended = run_ranks(_all, job, ranks=ranks, timeout=PATIENCE, limit=LIMIT)
            for file in sorted(Path(folder).glob("*.pickle")):  # also of a launch that was killed
                found[left.pop(0)] = pickle.loads(file.read_bytes())
        if left:
            bad = [one for one in ended if one.status in ("killed", "exit")]
            found[left.pop(0)] = {(ranks, 0, 0): [_gone(doing(one)) for one in bad or ended[:1]]}
    return found


def _gone(words: str) -> dict[str, Any]:
    return {"status": RAISED, "error": "Killed", "message": words, "line": 0, "written": []}


def _all(programs: Sequence[Program], ports: Sequence[int], folder: str) -> None:
    """Try one program after the other, and leave a file for each."""
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))  # the first one imports much
    groups = _Groups()
    for number, (name, text) in enumerate(programs):
        found = pickle.dumps(_one(name, text, ports[number], folder, groups))
        if dist.get_rank() == 0:
            file = Path(folder) / f"{number:04}.pickle"
            file.with_suffix(".part").write_bytes(found)
            file.with_suffix(".part").rename(file)


class _Groups:
    """A process group of the first ranks for each size, made anew when messages may be left in it.

    All ranks of the launch make the same calls, whether or not they belong to a group.
    """

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def of(self, n: int) -> Any:
        if n not in self.made:
            self.made[n] = dist.new_group(list(range(n)), timeout=timedelta(seconds=SECONDS))
        return self.made[n]

    def end(self, n: int) -> None:
        """Close the connections of this rank, so that nobody waits for it."""
        group = self.made.pop(n, None)
        if group is not None and dist.get_rank() < n:
            dist.destroy_process_group(group)


def _one(name: str, text: str, port: int, folder: str, groups: _Groups) -> Trial:
    """Every case on every number of ranks, up to the first that stops."""
    found: Trial = {}
    size, rank = dist.get_world_size(), dist.get_rank()
    for n in MORE.get(name, SIZES):
        runs = [(case, 0) for case in range(cases(name))] + [(0, 1)] * (n == SIZES[0])
        for case, turn in runs:
            group = groups.of(n)
            mine = _run(name, text, case, port, folder, group) if rank < n else None
            if mine and mine["status"] != RAN:
                groups.end(n)
            each: list[Any] = [None] * size
            dist.all_gather_object(each, mine)
            ranks = found[n, case, turn] = each[:n]
            if name == "p04" or not all(_clean(one, ranks[0]) for one in ranks):
                groups.end(n)
            if any(one["status"] != RAN for one in ranks):
                return found
    return found


def _clean(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a rank left no message behind, as far as its calls tell."""
    return one["status"] == RAN and one["calls"] == other.get("calls") and not one["messages"]


class _TooLong(BaseException):
    """A program was busy when its time ran out; `except Exception` does not catch it."""


def _late(*_: object) -> None:
    raise _TooLong("it was still busy")


def _run(name: str, text: str, case: int, port: int, folder: str, group: Any) -> dict[str, Any]:
    """Run a program once on this rank, in a group that is the whole world to it.

    Whatever it raises is its result.
    """
    everybody, before = dist.group.WORLD, signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, BUSY)
    seen = Seen()
    try:
        dist.group.WORLD = group
        with watched(seen):
            report = _plain(on_rank(name, text, case, port, folder))
        return {"status": RAN, "report": report, "port": port, **vars(seen)}
    except BaseException as error:
        return {**_stopped(name, error), "written": seen.written}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        dist.group.WORLD = everybody


def _stopped(name: str, error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [one.lineno for one in frames if one.filename == f"{name}.py"]
    message = str(error)
    status = RAISED
    if isinstance(error, RuntimeError) and failed_in_collective(error):
        status = GONE if PEER_GONE.search(message) else WAITED
    return {
        "status": status,
        "error": type(error).__name__.strip("_"),
        "message": message,
        "line": lines[-1] if lines else 0,
    }


def _plain(value: Any) -> Any:
    """A report without tensors."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
