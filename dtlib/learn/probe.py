"""Run a student's function on real ranks, case after case, and bring back what every rank saw."""

from __future__ import annotations

import contextlib
import hashlib
import io
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.cases import Case, Failure, Given, Round, Seen
from dtlib.learn.checking import innermost
from dtlib.learn.wire import FEW, WireLog

TIMEOUT = 3.0  # seconds a rank waits for another before a check calls it a hang
LIMIT = 20.0  # seconds that all cases of a launch may take: an endless loop ends too
MOST = 2000  # characters that a rank prints and that come back
OWN_CODE = "its own code"
# What gloo's texts say of a wait; in DETAIL mode a collective starts with a monitored barrier.
HANGS = {
    "for send operation": "send",
    "for recv operation": "recv",
    "failed to pass monitoredBarrier": "a collective",
    "imed out": "a collective",
}
GONE = ("Connection closed", "Connection reset", "Broken pipe", "received errors while waiting")


def run_cases(student: Callable[..., Any], n: int, cases: Sequence[Case]) -> list[Round]:
    """Run the cases on `n` ranks up to the first one that is not right on every rank."""
    from dtlib.ranks.launcher import run_ranks

    outcomes = run_ranks(
        _on_rank, (student, tuple(cases)), ranks=n, timeout=TIMEOUT, limit=LIMIT, debug=True,
        device="cpu",  # the cases' tensors are there, also on a machine with GPUs
    )  # fmt: skip
    return together(cases, [o.value if o.status == "ok" else [lost(o)] for o in outcomes])


def together(
    cases: Sequence[Case] | Sequence[Given], reached: Sequence[list[Seen]], to_the_end: bool = False
) -> list[Round]:
    """What every rank saw, case by case, up to the first that is not right everywhere, or all."""
    rounds = []
    for k in range(max(len(seen) for seen in reached)):
        # A rank that was lost tells nothing about the case it was lost in: the last one begun.
        ranks = [seen[k] if k < len(seen) else seen[-1] for seen in reached]
        rounds.append(Round(cases[k], ranks))
        if not rounds[-1].right and not to_the_end:
            break
    return rounds


def lost(outcome: Any) -> Seen:
    """What is known of a rank that gave no answer: it was killed, or it never came back."""
    waited = OWN_CODE if outcome.status == "timeout" else None
    failure = Failure(
        outcome.error or outcome.status,
        outcome.message or "",
        "",
        0,
        str(outcome.where),
        waited,
        lost=True,
    )
    return Seen(outcome.rank, failure=failure)


def _on_rank(student: Callable[..., Any], cases: Sequence[Case]) -> list[Seen]:
    rank, n = dist.get_rank(), dist.get_world_size()
    # The student's calls and ours must never meet in one collective.
    ours: Any = dist.new_group()
    seen = []
    for case in cases:
        seen.append(_one_case(student, case, rank, n))
        # A rank that failed waits here too: the others then end by their own time-out, with all
        # that they saw, before the launcher ends them.
        everyone = torch.tensor([int(seen[-1].right)])
        try:
            dist.all_reduce(everyone, dist.ReduceOp.MIN, group=ours)
        except RuntimeError:  # another rank is lost or still waiting
            break
        if not everyone:
            break
    return seen


def plain_group() -> Any:
    """A group without the debug mode of checks, in which DDP of torch 2.14 crashes.

    It waits longer than a check may take, whose own clock then decides alone: the first DDP of a
    process loads much, each in its time.
    """
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.OFF)
    group = dist.new_group(timeout=timedelta(seconds=2 * LIMIT))
    dist.set_debug_level(level)
    return group


def _one_case(student: Callable[..., Any], case: Case, rank: int, n: int) -> Seen:
    x, want = case.make(rank, n), case.want(rank, n)
    seen = Seen(rank, want=few(want), want_shape=tuple(want.shape))
    log = WireLog(watch=x if x.numel() <= FEW else None, forbid_collectives=case.forbid_collectives)
    printed = io.StringIO()
    start = time.perf_counter()
    with log, contextlib.redirect_stdout(printed):
        try:
            result = student(x)
        except (Exception, SystemExit) as error:
            seen.failure = failed(error, log)
    seen.seconds = time.perf_counter() - start
    seen.messages, seen.printed = log.messages, printed.getvalue()[-MOST:]
    if seen.failure is None:
        result = describe(seen, x if result is None and case.in_place else result)
        if result is not None:
            seen.right = _is_right(seen, result, want, case, n)
            if seen.right and case.x_counts:  # it returned the answer, and may have left x alone
                result = describe(seen, x)
                seen.right = result is not None and _is_right(seen, result, want, case, n)
            if not seen.right:
                seen.counts = counts(result)
    return seen


def describe(seen: Seen, result: Any) -> torch.Tensor | None:
    """Note what kind of thing came back; a number is taken for a tensor of one."""
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        seen.kind, result = "number", torch.tensor(result, dtype=torch.float64)
    elif isinstance(result, torch.Tensor):
        seen.kind, result = "tensor", result.detach().contiguous()
    else:
        seen.kind = "none" if result is None else type(result).__name__
        return None
    seen.shape, seen.values = tuple(result.shape), few(result)
    seen.bits = hashlib.sha256(result.numpy().tobytes()).hexdigest()
    return result


def _is_right(seen: Seen, result: torch.Tensor, want: torch.Tensor, case: Case, n: int) -> bool:
    if case.strict_buffers and any(
        m.overlaps or m.changed or (m.peer is not None and not m.waited) for m in seen.messages
    ):
        return False
    if case.judge is not None:
        return case.judge(result, seen.rank, n)
    return close(result, want, case.tolerance)


def close(result: torch.Tensor, want: torch.Tensor, tolerance: float) -> bool:
    """Whether a tensor is the right one; a number may be wrapped in any way."""
    if result.numel() == want.numel() == 1:
        result, want = result.reshape(()), want.reshape(())
    return result.shape == want.shape and torch.allclose(
        result.double(), want.double(), rtol=tolerance, atol=tolerance
    )


def counts(result: torch.Tensor) -> dict[float, int]:
    """How often each number stands in a tensor that holds few different ones."""
    values, counts = result.unique(return_counts=True)
    if len(values) > 8:
        return {}
    return dict(zip(map(float, values.tolist()), counts.tolist(), strict=True))


def few(x: torch.Tensor) -> list[float]:
    """The numbers of a small tensor."""
    return [float(v) for v in x.flatten().tolist()] if x.numel() <= FEW else []


def failed(error: BaseException, log: WireLog) -> Failure:
    """What stopped a rank: an exception of its own, or a wait that was too long."""
    message = str(error).strip()
    frame = innermost(error)
    waited = next((what for words, what in HANGS.items() if words in message), None)
    if waited is None and message == "Wait timeout":
        waited = "a peer that never came"
    # In DETAIL mode a collective begins with messages of its own, and gloo names those.
    own = [m for m in log.messages[-1:] if m.peer is not None]
    if waited in ("send", "recv") and not own:
        waited = "a collective"
    return Failure(
        type(error).__name__,
        message,
        frame.name,
        frame.lineno or 0,
        # A cell's source is not on this rank; the parent looks the line up by this file name.
        frame.filename,
        waited,
        any(words in message for words in GONE),
    )
