"""Watch a ring at work: what every chunk of every rank held, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.drawing import box, canvas, ranks, send
from dtlib.learn.explanations import number
from dtlib.learn.wire import WireLog
from dtlib.scratch.ring import ring_all_reduce

from .moving import moving


@dataclass
class RingTrace:
    """What a ring did with one painted number per chunk.

    Attributes
    ----------
    states
        `states[step][rank][chunk]`, from the start to the end.
    bytes_sent
        By rank.
    """

    states: list[list[list[float]]]
    bytes_sent: list[int]

    def rows(self) -> list[list[Any]]:
        """One row a step and rank: for a table."""
        return [
            [_title(step, self), rank, *map(number, chunks)]
            for step, ranks in enumerate(self.states)
            for rank, chunks in enumerate(ranks)
        ]

    def columns(self) -> list[str]:
        """Headings for `rows`."""
        return ["step", "rank", *[f"chunk {k}" for k in range(len(self.states[0]))]]


def trace_ring(ring: Callable[[torch.Tensor], Any], ranks: int = 3) -> RingTrace:
    """Run a ring all-reduce on real ranks, one number per chunk, and keep what it went through.

    Parameters
    ----------
    ring
        Sums its argument over all ranks. Only what it does in place can be seen; of one that
        works on a copy nothing can, and the course's own ring is traced in its place.
    ranks
        How many.
    """
    from dtlib.ranks.launcher import launch

    seen = launch(_watch, ring, ranks=ranks, timeout=10, show=False)
    if ring is not ring_all_reduce and all(_still(states) for states, _ in seen):
        print("This ring works on a copy of x, out of sight: these are the steps of the course's.")
        return trace_ring(ring_all_reduce, ranks)
    steps = max(len(states) for states, _ in seen)
    states = [[states[min(k, len(states) - 1)] for states, _ in seen] for k in range(steps)]
    return RingTrace(states, [sent for _, sent in seen])


def _watch(ring: Callable[[torch.Tensor], Any]) -> tuple[list[list[float]], int]:
    x = torch.full((dist.get_world_size(),), 10.0 ** dist.get_rank())
    with WireLog(watch=x) as log:
        result = ring(x)
    end = (x if result is None else result).tolist()
    return [*[m.state or [] for m in log.sent], end], log.bytes_sent


def _still(states: list[list[float]]) -> bool:
    """Whether a tensor of several steps never changed before the end."""
    return len(states) > 2 and all(state == states[0] for state in states[:-1])


def draw_ring(trace: RingTrace) -> Any:
    """Draw a trace: a panel a step, a row a rank, a column a chunk; finished sums are filled."""
    n = len(trace.states[0])
    everyone = float(sum(10**r for r in range(n)))
    half = (len(trace.states) - 1) // 2
    said = "; ".join(f"{_title(k, trace)}: {_in_words(s)}" for k, s in enumerate(trace.states))
    figure, panels = canvas(
        f"The sums are finished after {half} steps, and everywhere after {2 * half}",
        f"What each of {n} ranks holds of {n} chunks, finished sums filled. {said}.",
        size=(max(3.0, (0.5 + 0.32 * n) * len(trace.states)), 1.2 + 0.35 * n),
        columns=len(trace.states), squeeze=False, sharey=True,
    )  # fmt: skip
    for step, (panel, held) in enumerate(zip(panels[0], trace.states, strict=True)):
        ranks(panel, n, n)
        panel.set_xticks([chunk + 0.5 for chunk in range(n)], map(str, range(n)))
        panel.tick_params(axis="x", length=0)
        panel.set_xlabel("chunk")
        panel.set_title(_title(step, trace).replace(", ", "\n"), fontweight="normal")
        for rank, chunks in enumerate(held):
            for chunk, value in enumerate(chunks):
                kind = "gradients" if value == everyone else "outline"
                box(panel, chunk + 0.04, rank, 0.92, kind, number(value))
    return figure


def step_ring(trace: RingTrace) -> Any:
    """Draw a trace as a moving picture: a frame a step, with the messages that led to it."""
    frames = {_title(step, trace): _frame(step, trace) for step in range(len(trace.states))}
    return moving("Step through your ring: a click, or an arrow key", frames)


def _frame(step: int, trace: RingTrace) -> Any:
    held = trace.states[step]
    n = len(held)
    before = trace.states[max(step - 1, 0)]
    arrived = [(r, c) for r in range(n) for c in range(n) if held[r][c] != before[r][c]]
    everyone = float(sum(10**r for r in range(n)))
    said = "; ".join(f"chunk {c} from rank {(r - 1) % n} to rank {r}" for r, c in arrived)
    done = sum(value == everyone for chunks in held for value in chunks)
    figure, axes = canvas(
        f"{_title(step, trace)}: {done} of {n * n} chunks are finished sums",
        f"What the ranks hold: {_in_words(held)}. What travelled: {said or 'nothing yet'}.",
        size=(4.6, 0.9 + 0.75 * n),
    )  # fmt: skip
    ranks(axes, n, n + 0.2)
    axes.set_ylim(n - 0.2, -0.8)
    axes.set_xticks([chunk + 0.5 for chunk in range(n)], [f"chunk {c}" for c in range(n)])
    axes.tick_params(axis="x", length=0)
    for rank, chunks in enumerate(held):
        for chunk, value in enumerate(chunks):
            kind = "gradients" if value == everyone else "outline"
            box(axes, chunk + 0.14, rank, 0.72, kind, number(value), height=0.5)
    for rank, chunk in arrived:  # from the rank above; to rank 0, from the last one below
        send(axes, (chunk + 0.5, rank - 0.72), (chunk + 0.5, rank - 0.27))
        if rank == 0:
            send(axes, (chunk + 0.5, n - 0.73), (chunk + 0.5, n - 0.28))
    return figure


def _in_words(held: list[list[float]]) -> str:
    return ", ".join(
        f"rank {rank} has {' '.join(map(number, chunks))}" for rank, chunks in enumerate(held)
    )


def _title(step: int, trace: RingTrace) -> str:
    half = (len(trace.states) - 1) // 2
    if step == 0:
        return "start"
    first = step <= half
    return f"reduce-scatter, s={step - 1}" if first else f"all-gather, s={step - half - 1}"
