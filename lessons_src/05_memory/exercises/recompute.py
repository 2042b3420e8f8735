"""Exercise 5.2: `checkpoint(block, x)`, judged by gradients, random numbers, bytes and calls.

A linear layer before the block shows the gradient of the block's input. The loss weighs every
output differently, so that an answer that ignores the incoming gradient is noticed.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong, innermost, place_in_words, stopped, stopped_here

from ..activation_checkpointing import saved_for_backward

ROWS, WIDTH = 3, 4
INPUT = ROWS * WIDTH * 4  # bytes of a block's input
ENDLESS = 20  # calls of one block: torch would start threads for ever, and no clock could stop it
# words of the solution
START, BACK = "x = x.detach().requires_grad_()\n            ", "y.backward(gradient)"
RETURN, DICE = "return x.grad", "torch.set_rng_state(dice)"
SAVE = "ctx.save_for_backward(x)\n            return block(x)"

checkpoint = solution("checkpoint", globals())


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
class Passes:
    """The results of a forward and a backward through checkpointed blocks."""

    output: torch.Tensor
    inside: list[torch.Tensor | None]  # gradients of the blocks
    before: list[torch.Tensor | None]  # and of the layer before them
    kept: int
    calls: tuple[int, int]
    next_number: float


def plainly(block, x):
    return block(x)


def passes(way, dropout, blocks, earlier=None):
    """Pass through blocks that `way` calls; `earlier` is the value of gradients from before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = nn.Linear(WIDTH, WIDTH)
        row = [Block(dropout) for _ in range(blocks)]
        own = [*first.parameters(), *(p for block in row for p in block.parameters())]
        if earlier is not None:
            for p in own:
                p.grad = torch.full_like(p, earlier)
        y = first(torch.randn(ROWS, WIDTH))
        with saved_for_backward(*own) as saved:
            for block in row:
                y = one_forward(way, block, y)
            kept = saved()
        torch.rand(1)  # as a layer behind the blocks would draw
        forward = sum(block.calls for block in row)
        try:
            (y * torch.arange(1.0, 1 + ROWS * WIDTH).view(ROWS, WIDTH)).sum().backward()
        except Exception as error:
            raise in_backward(error) from error
        gradients, calls = [p.grad for p in own], (forward, sum(block.calls for block in row))
        return Passes(y.detach(), gradients[2:], gradients[:2], kept, calls, float(torch.rand(1)))


plain = functools.cache(functools.partial(passes, plainly))


def one_forward(way, block, x):
    y = way(block, x)
    if y is None:
        raise Wrong("none")
    if not isinstance(y, torch.Tensor):
        raise Wrong("no_tensor", got=type(y).__name__)
    if y.shape != x.shape:
        raise Wrong("shape", got=list(y.shape), shape=list(x.shape), rank=0, n=1)
    if not y.requires_grad:
        raise Wrong("cut")
    return y


def in_backward(error):
    """Recognise what torch says of a recomputation that has no graph, or no start."""
    text = str(error)
    if isinstance(error, Wrong):
        return error
    if "does not require grad" in text:
        return Wrong("no_graph")
    if "a second time" in text:
        return Wrong("graph_used" if innermost(error).name else "second_time")
    if "created only for scalar" in text:
        return Wrong("no_start", shape=[ROWS, WIDTH])
    if "inplace operation" in text or "leaf Variable" in text:
        frame = innermost(error)
        place = place_in_words(frame.name, frame.lineno or 0, frame.line or "")
        return stopped(type(error).__name__, text, place)
    return stopped_here(error)


@dataclass
class Seen:
    """The first thing that differs from plain autograd, if any, and its numbers for sentences."""

    what: str
    value: Any
    numbers: dict[str, Any] = field(default_factory=dict, compare=False)


def run(answer, dropout, blocks, earlier, counted):
    """Gradients first, then random numbers; bytes and calls where they are counted."""
    mine, right = passes(answer, dropout, blocks, earlier), plain(dropout, blocks, earlier)
    if not torch.equal(mine.output, right.output):
        return Seen("output", mine.output, first([mine.output], [right.output]))
    if any(gradient is None for gradient in mine.inside):
        return Seen("none", alike(mine.before, right.before))
    for what in ("inside", "before"):
        got, want = getattr(mine, what), getattr(right, what)
        if not alike(got, want, 1e-5 if earlier else 0.0):
            return Seen(what, got, first(got, want))
    if dropout and mine.next_number != right.next_number:
        told = {"got": f"{mine.next_number:.4f}", "want": f"{right.next_number:.4f}"}
        return Seen("next_number", mine.next_number, told)
    told = {"got": mine.kept, "plain": right.kept, "want": blocks * INPUT}
    told |= {"forward": mine.calls[0], "backward": mine.calls[1] - mine.calls[0]}
    if counted and mine.kept > blocks * INPUT:
        return Seen("kept", mine.kept, told)
    if counted and mine.calls[1] != 2 * blocks:
        return Seen("calls", mine.calls, told)
    return Seen("right", None, told)


def first(got, want):
    """The first numbers of the first tensor that differs, and by how much the weights behind do."""
    a, b = next(pair for pair in zip(got, want, strict=True) if not alike(*pair, 0.0))
    told = {"got": "None" if a is None else few(a), "want": few(b)}
    return told | ({"off": f"{(want[2] - got[2]).abs().max():.3g}"} if len(got) > 2 else {})


def few(x):
    return ", ".join(f"{value:.3g}" for value in x.flatten()[:3].tolist())


def seen(*what, dropout=0.0, earlier=None):
    """Recognises a difference of these kinds in such a case."""
    asked = (dropout, earlier)
    return lambda got, dropout, earlier: got.what in what and (dropout, earlier) == asked


def case(words, dropout=0.0, blocks=1, earlier=None, counted=False):
    return f"{words}, {ROWS} rows of {WIDTH} numbers", (dropout, blocks, earlier, counted)


EXERCISE = Answer(
    checkpoint,
    other="gradients",
    run=run,
    same=1e-5,
    cases=[
        case("one block"),
        case("one block whose weights have gradients of 100", earlier=100.0),
        case("one block with dropout 0.5", dropout=0.5),
        case("1 block", counted=True),
        case("3 blocks", blocks=3, counted=True),
    ],
    mistakes=[
        Mistake("output", lambda block, x: x + checkpoint(block, x), when=seen("output")),
        ("no_parameters", {f"{BACK}\n            {RETURN}":
                           "return torch.autograd.grad(y, x, gradient)[0]"}),
        Mistake("no_way_back", {BACK: "pass", RETURN: "return y * gradient"}, when=seen("none")),
        ("start_ignored", {BACK: "y.backward(torch.ones_like(y))"}),
        ("parameters_twice", {BACK: f"y.backward(gradient, retain_graph=True), {BACK}"}),
        Mistake("no_input", {RETURN: "return None"}, when=lambda got:
                got.what == "before" and (got.value[0] is None or not got.value[0].any())),
        ("passed_on", {RETURN: "return gradient"}),
        ("input_twice", {START: "", BACK: "(by_x,) = torch.autograd.grad(y, x, gradient, True)\n"
                         "            y.backward(gradient, retain_graph=True)",
                         RETURN: "return by_x"}),
        Mistake("overwritten", {BACK: f"block.zero_grad(), {BACK}"},
                when=seen("inside", "before", earlier=100.0)),
        Mistake("forward_dice", lambda block, x: checkpoint(block.eval(), x),
                when=seen("output", dropout=0.5)),
        Mistake("dice", {DICE: "pass"}, when=seen("inside", dropout=0.5)),
        Mistake("dice_after", {", torch.random.fork_rng()": ""},
                when=seen("next_number", dropout=0.5)),
        Mistake("nothing_saved", plainly, when=lambda got:
                got.what == "kept" and got.value >= got.numbers["plain"]),
        Mistake("more_than_input",
                {SAVE: "ctx.save_for_backward(x, x + 0)\n            return block(x)",
                 "(x,) =": "x, _ ="}, when=seen("kept")),
        Mistake("calls", {DICE: f"block(x), {DICE}"}, when=seen("calls")),
    ],
    facts=lambda got: got.numbers,
    passed=lambda got: Passed(
        (
            ("kept by 3 blocks", got[-1].numbers["got"], 3 * INPUT, "bytes"),
            ("without", got[-1].numbers["plain"], "", ""),
        ),
        "All gradients are those of plain autograd, bit for bit.",
    ),
)  # fmt: skip
