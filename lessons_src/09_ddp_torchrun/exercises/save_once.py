"""Exercise 9.4: one rank of all saves, and none goes on before the file is there.

Four ranks stand for two nodes of two, each of which has a local rank 0. `torch.save` is slowed
down, so that a rank that does not wait is seen not to.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Round
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.diagnosis import examine

SLOW = 0.3  # seconds that a save takes here, far more than a barrier
NODES = {1: 1, 3: 1, 4: 2}
EVENTS = "events-{rank}"


def reference(state: dict[str, Any], path: str) -> None:
    """Global rank 0 writes, then everybody meets."""
    if dist.get_rank() == 0:
        torch.save(state, path)
    dist.barrier()


def check(student: Callable[..., Any]) -> Passed:
    """Save on 1 and 3 ranks of a node, and on 4 ranks of two nodes."""
    with tempfile.TemporaryDirectory(prefix="dtlib-check-") as folder:
        on_rank = functools.partial(_on_rank, student, folder)
        for n in NODES:
            told = functools.partial(explain, Path(folder))
            rounds = examine(on_rank, [(n, [_case(n)])], told)
            wrong = told(rounds[0])  # the file may be there, and written too often
            if wrong is not None:
                raise wrong
        writers = _writers(Path(folder), n)
    return Passed(
        ((f"ranks of {n} that wrote", len(writers), 1, ""),),
        f"Rank {writers[0]} wrote, and all {n} found the file.",
    )


def _case(n: int) -> Case:
    nodes = NODES[n]
    return Case(
        f"{nodes} node{'s' * (nodes > 1)}",
        make=lambda rank, n: torch.tensor([10.0**rank]),
        want=lambda rank, n: torch.ones(1),
    )


def _on_rank(student: Callable[..., Any], folder: str, weight: torch.Tensor) -> torch.Tensor:
    """Call the student's function, and return whether the file can be read on this rank."""
    rank, n = dist.get_rank(), dist.get_world_size()
    os.environ["LOCAL_RANK"] = str(rank % (n // NODES[n]))
    here = Path(folder) / str(n)
    here.mkdir(exist_ok=True)
    events: list[str] = []
    save, barrier = torch.save, dist.barrier

    def slow_save(*args: Any, **kwargs: Any) -> None:
        events.append("save")
        (here / EVENTS.format(rank=rank)).write_text(" ".join(events))
        time.sleep(SLOW)
        save(*args, **kwargs)

    def noted_barrier(*args: Any, **kwargs: Any) -> Any:
        events.append("barrier")
        return barrier(*args, **kwargs)

    torch.save, dist.barrier = slow_save, noted_barrier
    try:
        student({"weight": weight}, str(here / "last.pt"))
        there = _readable(here / "last.pt")
    finally:
        torch.save, dist.barrier = save, barrier
        (here / EVENTS.format(rank=rank)).write_text(" ".join(events))
    return torch.tensor([float(there)])


def _readable(path: Path) -> bool:
    try:
        return "weight" in torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # missing, torn, of another kind: torch.load raises all sorts
        return False


def _events(folder: Path, n: int) -> list[list[str]]:
    """What each rank did, in order."""
    files = [folder / str(n) / EVENTS.format(rank=rank) for rank in range(n)]
    return [file.read_text().split() if file.exists() else [] for file in files]


def _writers(folder: Path, n: int) -> list[int]:
    return [rank for rank, events in enumerate(_events(folder, n)) if "save" in events]


def explain(folder: Path, round_: Round) -> Wrong | None:
    """Recognise a mistake by who wrote, who waited, and who found a file."""
    events, writers = _events(folder, round_.n), _writers(folder, round_.n)
    without = [s.rank for s in round_.ranks if s.values == [0.0]]
    facts = {"n": round_.n, "writers": len(writers)}
    if not round_.failures and not writers:
        return Wrong("nobody", round_.label, **facts)
    if len(writers) == round_.n > 1:
        return Wrong("all_write", round_.label, **facts)
    if len(writers) > 1:
        who = " and ".join(f"rank {rank}" for rank in writers)
        return Wrong("local_rank", round_.label, who=who, nodes=NODES[round_.n], **facts)
    if round_.failures:
        return _met_too_few(round_, events)
    if without and writers:
        facts |= {"rank": without[0], "writer": writers[0]}
        if writers[0] in without:
            return Wrong("elsewhere", round_.label, **facts)
        early = "barrier" in events[without[0]]
        return Wrong("barrier_before" if early else "no_barrier", round_.label, **facts)
    return None


def _met_too_few(round_: Round, events: list[list[str]]) -> Wrong | None:
    waiting = [rank for rank, failure in round_.failures if not failure.own]
    gone = [rank for rank, own in enumerate(events) if "barrier" not in own]
    if not waiting or not gone or any(f.own for _, f in round_.failures):
        return None
    return Wrong("alone_in_barrier", round_.label, waiting=waiting[0], gone=gone[0])
