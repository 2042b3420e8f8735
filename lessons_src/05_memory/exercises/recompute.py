"""Exercise 5.2: `checkpoint(block, x)`, judged by gradients, random numbers, bytes and calls.

A linear layer stands before the block, so that the gradient of the block's input is seen too. The
loss weighs every output differently, so that an incoming gradient that is left out shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong, innermost, place_in_words, stopped, stopped_here

from ..activation_checkpointing import checkpoint, saved_for_backward

Checkpoint = Callable[..., Any]
reference = checkpoint
ROWS, WIDTH = 3, 4
INPUT = ROWS * WIDTH * 4  # bytes of a block's input
ENDLESS = 20  # calls of one block: torch would start threads for ever, and no clock could stop it


class Block(nn.Module):
    """Linear, GELU, dropout, linear; counts its calls."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.inside = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > ENDLESS:
            raise Wrong("endless", f"one block, {ROWS} rows of {WIDTH} numbers", calls=ENDLESS)
        return self.inside(x)


@dataclass
class Run:
    """What a forward and a backward through checkpointed blocks left behind."""

    output: Any = None
    before: list[torch.Tensor | None] = field(default_factory=list)
    inside: list[torch.Tensor | None] = field(default_factory=list)
    kept: int = 0
    calls: tuple[int, int] = (0, 0)
    next_number: float = 0.0


def plainly(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return block(x)


def run(
    way: Checkpoint, dropout: float, blocks: int, case: str = "", scale: Any = None,
    earlier: float | None = None,
) -> Run:  # fmt: skip
    """Pass through `blocks` blocks that `way` calls.

    `scale` is what the loss weighs with; `earlier` fills the gradients that weights have already.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = nn.Linear(WIDTH, WIDTH)
        row = [Block(dropout) for _ in range(blocks)]
        own = [*first.parameters(), *(p for block in row for p in block.parameters())]
        if earlier is not None:
            for p in own:
                p.grad = torch.full_like(p, earlier)
        x, weights = torch.randn(ROWS, WIDTH), torch.arange(1.0, 1 + ROWS * WIDTH)
        y = first(x)
        with saved_for_backward(*own) as saved:
            for block in row:
                y = _forward(way, block, y, case)
            kept = saved()
        torch.rand(1)  # as a layer behind the blocks would draw
        called = sum(block.calls for block in row)
        loss = (y * (weights.view(ROWS, WIDTH) if scale is None else scale)).sum()
        try:
            loss.backward()
        except Exception as error:
            raise _in_backward(error, case) from error
        return Run(
            y.detach(),
            [p.grad for p in first.parameters()],
            [p.grad for block in row for p in block.parameters()],
            kept,
            (called, sum(block.calls for block in row)),
            float(torch.rand(1)),
        )


def _forward(way: Checkpoint, block: Block, x: torch.Tensor, case: str) -> torch.Tensor:
    y = ask(way, block, x, case=case)
    if y is None:
        raise Wrong("none", case)
    if not isinstance(y, torch.Tensor):
        raise Wrong("no_tensor", case, got=type(y).__name__)
    if y.shape != x.shape:
        raise Wrong("shape", case, got=list(y.shape), shape=list(x.shape), rank=0, n=1)
    if not y.requires_grad:
        raise Wrong("cut", case)
    return y


def _in_backward(error: Exception, case: str) -> Wrong:
    """Recognise what torch says of a recomputation that has no graph, or no start."""
    text = str(error)
    if isinstance(error, Wrong):
        return error
    if "does not require grad" in text:
        return Wrong("no_graph", case)
    if "a second time" in text:
        return Wrong("graph_used" if innermost(error).name else "second_time", case)
    if "created only for scalar" in text:
        return Wrong("no_start", case, shape=[ROWS, WIDTH])
    if "inplace operation" in text or "leaf Variable" in text:
        frame = innermost(error)
        place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
        return stopped(type(error).__name__, text, place, case)
    return stopped_here(error, case)


def check(student: Checkpoint) -> Passed:
    """One block, then one with dropout, then three; gradients first, then bytes and calls."""
    case = f"one block, {ROWS} rows of {WIDTH} numbers"
    _gradients(student, run(student, 0.0, 1, case), case)
    _added(student)
    _dropout(student)
    for blocks in (1, 3):
        case = f"{blocks} block{'s' * (blocks > 1)}, {ROWS} rows of {WIDTH} numbers"
        mine, plain = run(student, 0.0, blocks, case), run(plainly, 0.0, blocks)
        _same(mine.inside + mine.before, plain.inside + plain.before, "gradients", case)
        _kept(mine, plain, blocks, case)
    rows = (("kept by 3 blocks", mine.kept, 3 * INPUT, "bytes"), ("without", plain.kept, "", ""))
    return Passed(rows, "All gradients are those of plain autograd, bit for bit.")


def _gradients(student: Checkpoint, mine: Run, case: str) -> None:
    """Compare the gradients of one block without dropout, and say what the difference means."""
    plain, uniform = run(plainly, 0.0, 1), run(plainly, 0.0, 1, scale=1.0)
    if not torch.equal(mine.output, plain.output):
        raise Wrong("output", case, got=_few(mine.output), want=_few(plain.output))
    if any(grad is None for grad in mine.inside):
        asked = _equal(mine.before, plain.before)
        raise Wrong("no_parameters" if asked else "no_way_back", case)
    if _equal(mine.inside, uniform.inside):
        raise Wrong("start_ignored", case)
    if _equal(mine.inside, [2 * grad for grad in plain.inside if grad is not None]):
        raise Wrong("parameters_twice", case)
    _same(mine.inside, plain.inside, "gradients", case)
    if mine.before[0] is None or not mine.before[0].any():
        raise Wrong("no_input", case)
    if _equal(mine.before, run(_identity, 0.0, 1).before):
        raise Wrong("passed_on", case)
    if _equal(mine.before, [2 * grad for grad in plain.before if grad is not None]):
        raise Wrong("input_twice", case)
    _same(mine.before, plain.before, "gradients", case)


def _added(student: Checkpoint) -> None:
    """Gradients of an earlier batch stay, and those of this one are added."""
    case = f"one block whose weights have gradients of 100, {ROWS} rows of {WIDTH} numbers"
    mine, plain = run(student, 0.0, 1, case, earlier=100.0), run(plainly, 0.0, 1, earlier=100.0)
    for got, want in zip(mine.inside, plain.inside, strict=True):
        if not _equal([got], [want]):
            assert got is not None and want is not None
            raise Wrong("overwritten", case, got=_few(got), want=_few(want))


def _identity(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x * 1


def _dropout(student: Checkpoint) -> None:
    case = f"one block with dropout 0.5, {ROWS} rows of {WIDTH} numbers"
    mine, plain = run(student, 0.5, 1, case), run(plainly, 0.5, 1)
    if not torch.equal(mine.output, plain.output):
        raise Wrong("forward_dice", case, got=_few(mine.output), want=_few(plain.output))
    if not _equal(mine.inside, plain.inside):
        mask = (plain.inside[2] - mine.inside[2]).abs().max()  # type: ignore[operator]
        raise Wrong("dice", case, off=f"{mask:.3g}")
    _same(mine.before, plain.before, "gradients", case)
    if mine.next_number != plain.next_number:
        seen = {"got": f"{mine.next_number:.4f}", "want": f"{plain.next_number:.4f}"}
        raise Wrong("dice_after", case, **seen)


def _kept(mine: Run, plain: Run, blocks: int, case: str) -> None:
    seen = {"got": mine.kept, "plain": plain.kept, "want": blocks * INPUT, "blocks": blocks}
    forward, in_all = mine.calls
    if mine.kept >= plain.kept:
        raise Wrong("nothing_saved", case, **seen)
    if mine.kept > blocks * INPUT:
        raise Wrong("more_than_input", case, **seen)
    if in_all != 2 * blocks:
        raise Wrong("calls", case, forward=forward, backward=in_all - forward, **seen)


def _same(got: list[Any], want: list[Any], key: str, case: str) -> None:
    """Raise `key` with the first gradient that differs."""
    for mine, plain in zip(got, want, strict=True):
        if mine is None or not torch.equal(mine, plain):
            first = "None" if mine is None else _few(mine)
            raise Wrong(key, case, got=first, want=_few(plain))


def _equal(got: list[Any], want: list[Any]) -> bool:
    return len(got) == len(want) and all(
        a is not None and torch.allclose(a, b, rtol=1e-5, atol=1e-7)
        for a, b in zip(got, want, strict=True)
    )


def _few(x: torch.Tensor) -> str:
    return ", ".join(f"{value:.3g}" for value in x.flatten()[:3].tolist())
