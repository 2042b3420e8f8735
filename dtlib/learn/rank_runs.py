"""Run programs on real ranks, each in a process group of its own, and collect the results.

The solution runs first, in the same processes, so that every rank knows the right answer. A program
that hangs blocks only its own group; only one that dies, or never returns, ends the rest of its
launch too.
"""

from __future__ import annotations

import contextlib
import functools
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.alike import alike
from dtlib.learn.mistakes import Program, by_name
from dtlib.learn.reports import LIMIT, MOST, close, counts, describe, failed, few, lost, together
from dtlib.learn.rounds import Given, Round, Seen
from dtlib.learn.solutions import parameters
from dtlib.learn.verdicts import Wrong
from dtlib.learn.wire import FEW, WireLog

# Messages that answers left unfinished. gloo works on them in a thread of its own, so their memory
# is kept as long as the rank lives; otherwise the rank may crash when it ends.
_kept: list[Any] = []


@dataclass(frozen=True)
class Task:
    """What the ranks need to know about an exercise; `RankAnswer` explains each field."""

    reference: Program
    run: Callable[..., Any] | None
    read: Callable[..., Any] | None
    judge: Callable[..., bool] | None
    same: float
    collectives: bool


def run_programs(
    task: Task,
    programs: Sequence[Program],
    cases: Sequence[Given],
    timeout: float,
    seconds: float | None = None,
    to_the_end: bool = False,
) -> list[list[Round]]:
    """Run each program on the cases, all with one number of ranks, up to the first wrong one.

    Parameters
    ----------
    timeout
        Seconds that a rank waits for another before the wait counts as a hang.
    seconds
        No further program starts after that; the result leaves out those that did not start.
    to_the_end
        Run the cases after a wrong one, too.
    """
    from dtlib.ranks.launcher import run_ranks

    n = cases[0].n
    outcomes = run_ranks(
        _on_rank, (task, tuple(programs), tuple(cases), timeout, seconds, to_the_end),
        ranks=n, timeout=timeout, limit=LIMIT + len(programs), debug=True,
        device="cpu",  # the cases' tensors are on the CPU, even on a machine with GPUs
    )  # fmt: skip
    begun = min([len(o.value) for o in outcomes if o.status == "ok"], default=len(programs))
    found = []
    for k in range(begun):
        reached = [o.value[k] if o.status == "ok" else [lost(o)] for o in outcomes]
        found.append(together(cases, reached, to_the_end))
    return found


def _on_rank(
    task: Task,
    programs: Sequence[Program],
    cases: Sequence[Given],
    timeout: float,
    seconds: float | None,
    to_the_end: bool,
) -> list[list[Seen]]:
    store = dist.distributed_c10d._get_default_store()
    wants: list[Any] = []
    _in_turn(task, task.reference, cases, wants)
    found = []
    start = time.monotonic()
    for k, program in enumerate(programs):
        if seconds is not None and not _may_begin(k, store, start + seconds):
            break
        _fresh_group(dist.PrefixStore(f"program {k}", store), timeout)
        found.append(_in_turn(task, program, cases, wants, to_the_end))
    return found


def _may_begin(k: int, store: Any, end: float) -> bool:
    """Whether there is time left for program `k`, by the clock of rank 0."""
    if dist.get_rank() == 0:
        store.set(f"begin {k}", "yes" if time.monotonic() < end else "no")
    return bool(store.get(f"begin {k}") == b"yes")


def _fresh_group(store: Any, timeout: float) -> None:
    """Leave the group, with any messages still in flight there, and form a new one."""
    rank, n = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    limit = timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=limit)


def plain_group() -> Any:
    """A group without the debug mode of checks, in which DDP of torch 2.14 crashes.

    Its time-out is longer than a check may take, so that only the check's own limit counts: the
    first DDP of a process loads a lot, and ranks differ in how long that takes.
    """
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.OFF)
    group = dist.new_group(timeout=timedelta(seconds=2 * LIMIT))
    dist.set_debug_level(level)
    return group


def _in_turn(
    task: Task, program: Program, cases: Sequence[Given], wants: list[Any], to_the_end: bool = False
) -> list[Seen]:
    """Run a program on all cases, or up to the first that is not right on every rank."""
    # The program's calls and ours must never meet in one collective.
    ours: Any = dist.new_group()
    found = []
    for k, case in enumerate(cases):
        found.append(_one_case(task, program, case, k, wants))
        # A rank that failed waits here too: the others then end by their own time-out, with all
        # that they saw, before the launcher ends them.
        everyone = torch.tensor([int(found[-1].right)])
        try:
            dist.all_reduce(everyone, dist.ReduceOp.MIN, group=ours)
        except RuntimeError:  # another rank is lost or still waiting
            break
        if not everyone and not to_the_end:
            break
    return found


def _one_case(task: Task, program: Program, case: Given, k: int, wants: list[Any]) -> Seen:
    """What one rank saw of a program in case `k`; the solution runs first and fills `wants`."""
    rank, n = dist.get_rank(), dist.get_world_size()
    arguments = case.arguments(rank)
    first = arguments[0] if arguments else None
    watch = first if isinstance(first, torch.Tensor) and first.numel() <= FEW else None
    seen, value = Seen(rank), None
    log, printed = WireLog(watch, forbid_collectives=not task.collectives), io.StringIO()
    start = time.perf_counter()
    with log, contextlib.redirect_stdout(printed):
        try:
            value = task.run(program, *arguments) if task.run else program(*arguments)
            names = named(task, arguments, rank, n)
            if task.read is not None:
                value = by_name(functools.partial(task.read, value), names)
        except Wrong as wrong:
            seen.wrong = wrong
        except (Exception, SystemExit) as error:
            seen.failure = failed(error, log)
            if len(wants) <= k:  # the solution itself: tell the lesson's author
                raise
    seen.seconds, seen.messages = time.perf_counter() - start, log.messages
    seen.printed = printed.getvalue()[-MOST:]
    if len(wants) <= k:
        wants.append(value)
    if seen.failure is None and seen.wrong is None:
        _compare(task, seen, value, wants[k], case)
        log.settle()
    _kept.extend(log.left)
    return seen


def named(task: Task, arguments: Sequence[Any], rank: int, n: int) -> dict[str, Any]:
    """A rank's arguments by the parameter names of the solution, or of `run`."""
    names = parameters(task.run)[1:] if task.run else parameters(task.reference)
    return {**dict(zip(names, arguments, strict=False)), "rank": rank, "n": n}


def _compare(task: Task, seen: Seen, value: Any, want: Any, case: Given) -> None:
    """Record what came back, and whether it is right on this rank."""
    goal, found = Seen(seen.rank), describe(seen, value)
    target = describe(goal, want)
    seen.want, seen.want_shape, seen.want_kind = goal.values, goal.shape, goal.kind
    seen.goal = want if target is None else None
    if target is not None and not goal.values:
        seen.want_counts = counts(target)
    if found is None or target is None:
        seen.right = alike(value, want, task.same)
    else:
        seen.right = close(found, target, task.same)
    if task.judge is not None:
        names = named(task, case.arguments(seen.rank), seen.rank, case.n)
        seen.right = bool(by_name(task.judge, {**names, "got": value, "want": want, "seen": seen}))
    if found is None:
        seen.got = value
        return
    if not few(found):
        seen.counts = counts(found)
    seen.got = seen.values[0] if found.numel() == 1 else seen.values or seen.counts
