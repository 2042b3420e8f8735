"""Pictures and the numbers of tables: what ZeRO holds, sends and gathers in lesson 16's runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtlib.learn import charts
from dtlib.learn.drawing import LOOKS, box, canvas, key, ranks, send
from dtlib.scratch.zero.schedule import Instruction, OptimizerStep

from .zero_runs import KINDS, Books

Table = tuple[list[list[Any]], list[str], str]  # rows, columns, caption: for learn.table(*…)

WORDS = dict(zip(KINDS, ("weights", "gradients", "moments", "fp32 master"), strict=True))
# Table 1 of the paper (arXiv:1910.02054): GB on a rank for 7.5 billion parameters, stages 1 to 3.
PAPER = {
    1: (120, 120, 120),
    4: (52.5, 41.3, 30),
    16: (35.6, 21.6, 7.5),
    64: (31.4, 16.6, 1.88),
    256: (30.4, 15.4, 0.47),
    1024: (30.1, 15.1, 0.12),
}
# What a rank holds, by the colours of the course: the first stage that shards it, and its bytes a
# parameter in mixed precision.
STATES = {"weights": (3, 2), "gradients": (2, 2), "optimizer": (1, 12)}


def distances(found: Mapping[str, Books]) -> Table:
    """A row for each way and optimizer: how far the weights are from one process's, by step."""
    rows = [
        [name, kind, *(f"{value:.0e}" for value in far)]
        for name, books in found.items()
        for kind, far in books.far.items()
    ]
    steps = [f"step {k + 1}" for k in range(len(rows[0]) - 2)]
    return (rows, ["", "", *steps], "Largest distance of a weight from one process's")


def bytes_and_elements(found: Mapping[str, Books]) -> Table:
    """A row for each way: bytes a parameter by kind and in all, and elements sent in Ψ."""
    rows = [
        [name, *(books.held[kind] for kind in KINDS), books.bytes_each, books.sent]
        for name, books in found.items()
    ]
    caption = "Bytes a parameter on a rank, and elements that it sends in a step; fp32"
    return (rows, ["", *WORDS.values(), "all", "elements sent ÷ Ψ"], caption)


def held(panels: Mapping[str, Mapping[str, Books]]) -> Table:
    """The numbers of `draw_held`."""
    rows = [
        [title, name, *(books.held[kind] for kind in KINDS), books.bytes_each]
        for title, found in panels.items()
        for name, books in found.items()
    ]
    caption = "Bytes a parameter on a rank, measured between backward and update"
    return (rows, ["", "", *WORDS.values(), "all"], caption)


def stairs(panels: Mapping[str, tuple[Sequence[Instruction], Books]]) -> Table:
    """The numbers of `draw_stairs`, and what each schedule sends."""
    rows = [
        [title, max(books.stairs), books.sent, " ".join(f"{x:.0f}" for x in books.stairs)]
        for title, (_, books) in panels.items()
    ]
    columns = ["", "whole layers, at most", "elements sent ÷ Ψ", "after each line"]
    return (rows, columns, "Whole layers on rank 0, measured in a real step")


def beside_the_paper(held: Callable[..., Mapping[str, float]]) -> list[list[Any]]:
    """For each N of the paper's table the GB of stages 1 to 3 by `held`, and as printed there."""
    rows: list[list[Any]] = []
    for n, printed in PAPER.items():
        mine = [sum(held(7.5e9, n, stage, "mixed").values()) / 1e9 for stage in (1, 2, 3)]
        rows.append([n, *zip(mine, printed, strict=True)])
    return rows


def paper(rows: Sequence[Sequence[Any]]) -> Table:
    """The rows of `beside_the_paper`, by N."""
    cells = [[n, *(f"{x:.3f} | {y}" for x, y in pairs)] for n, *pairs in rows]
    caption = "GB (10⁹ bytes) on a rank, 7.5 billion parameters: yours | the paper"
    return (cells, ["N", "stage 1", "stage 2", "stage 3"], caption)


def as_printed(value: float, printed: float) -> bool:
    """Whether a value is within one unit of a printed number's last digit."""
    return abs(value - printed) < 10.0 ** -len(str(printed).partition(".")[2])


def draw_question(n: int = 4) -> Any:
    """Data parallel: what each rank holds, all of it everywhere."""
    figure, axes = canvas(
        f"{n} ranks hold the same 16 bytes of each parameter. Which does a rank need?",
        f"{n} ranks in rows. Each holds 2 bytes of weights, 2 bytes of gradients and 12 bytes of "
        "optimizer state, all of them whole; the rows are alike.",
        size=(7, 2.6),
    )
    ranks(axes, n, 16.1)
    for rank in range(n):
        for x, kind in ((0.05, "weights"), (2.05, "gradients"), (4.05, "optimizer")):
            box(axes, x, rank, STATES[kind][1], kind, f"{STATES[kind][1]} bytes")
    key(figure, list(STATES), {"optimizer": "optimizer state"})
    return figure


def draw_stages(n: int = 4) -> Any:
    """What each rank holds at each stage: a shard is a filled part of an outline."""
    figure, several = canvas(
        "Each stage shards one more kind",
        f"A panel for each of stages 0 to 3, with {n} ranks in rows. At stage 0 each rank holds "
        "all weights, gradients and optimizer state. Stage 1 leaves rank r shard r of the "
        "optimizer state, stage 2 also shard r of the gradients, stage 3 also shard r of the "
        "weights. Widths are bytes: 2, 2 and 12 a parameter.",
        size=(7, 4.4), rows=2, columns=2,
    )  # fmt: skip
    for stage, axes in enumerate(several.flat):
        ranks(axes, n, 17.1)
        axes.set_title(f"stage {stage}" + " (data parallel)" * (not stage), loc="left")
        for rank in range(n):
            x = 0.05
            for kind, (first, width) in STATES.items():
                part = (rank / n, (rank + 1) / n) if stage >= first else (0, 1)
                box(axes, x, rank, width, kind, part=part)
                x += width + 0.5
    words = {"optimizer": "optimizer state", "outline": "held by other ranks"}
    key(figure, [*STATES, "outline"], words)
    return figure


def draw_stage1(n: int = 4) -> Any:
    """A step of stage 1 on each rank: sum of a shard, update of a shard, all weights again."""
    figure, axes = canvas(
        "Stage 1 updates between the two halves of an all-reduce",
        f"{n} ranks in rows. Each has a whole gradient; reduce_scatter leaves rank r shard r of "
        "the sum; it updates shard r of the weights; all_gather gives every rank all new weights. "
        f"Of the {n - 1} passes of each collective round the ring the first is drawn: an arrow "
        "from each rank to the next.",
        size=(7, 1.1 + 0.5 * n),
    )
    ranks(axes, n, 16.5)
    for rank in range(n):
        part = (rank / n, (rank + 1) / n)
        box(axes, 0.05, rank, 2.6, "gradients")
        box(axes, 5.0, rank, 2.6, "gradients", part=part)
        box(axes, 8.9, rank, 2.6, "weights", part=part)
        box(axes, 13.8, rank, 2.6, "weights")
        send(axes, (7.65, rank), (8.85, rank), kind="outline")
    for start, end, text in ((2.7, 4.95, "reduce_scatter"), (11.55, 13.75, "all_gather")):
        for rank in range(n):
            send(axes, (start, rank), (end, (rank + 1) % n))
        axes.text((start + end) / 2, -0.55, f"{text}\n(pass 1 of {n - 1})", ha="center",
                  va="bottom", fontsize=10)  # fmt: skip
    axes.text(8.25, -0.55, "update", ha="center", va="bottom", fontsize=10)
    axes.set_ylim(n - 0.5, -1.3)
    key(figure, ["gradients", "weights"])
    return figure


def draw_held(panels: Mapping[str, Mapping[str, Books]]) -> Any:
    """Stacked bars of bytes a parameter: a panel for each precision, a bar for each stage."""
    said = "; ".join(
        f"{title}, {name}: {books.bytes_each:.3g}"
        for title, found in panels.items()
        for name, books in found.items()
    )
    figure, several = canvas(
        "Every stage leaves fewer bytes of a parameter on a rank",
        f"Stacked bars of bytes a parameter, by precision and stage. {said}. The optimizer state "
        "is the moments and the fp32 master weights.",
        size=(7, 3.2), columns=len(panels), sharey=True, squeeze=False,
    )  # fmt: skip
    for axes, (title, found) in zip(several[0], panels.items(), strict=True):
        parts = {name.replace("stage ", ""): by_colour(books) for name, books in found.items()}
        charts.stacks(axes, parts, "bytes a parameter")
        axes.set_title(title, loc="left")
        axes.set(xlabel="stage", ylim=(0, 18))
        for text in axes.texts:
            text.set_text(text.get_text().replace("optimizer", "optimizer state"))
    several[0][-1].set_ylabel("")
    return figure


def by_colour(books: Books) -> dict[str, float]:
    """Bytes a parameter by the kinds that have a colour: a master is optimizer state."""
    held = books.held
    return {
        "weights": held["parameters"], "gradients": held["gradients"],
        "optimizer": held["optimizer"] + held["fp32_copy"],
    }  # fmt: skip


def draw_stairs(panels: Mapping[str, tuple[Sequence[Instruction], Books]]) -> Any:
    """How many layers are whole after each line of a schedule, a panel for each schedule."""
    most = {title: max(books.stairs) for title, (_, books) in panels.items()}
    few, many = min(most.values()), max(most.values())
    verb = "is" if few == 1 else "are"
    said = "; ".join(
        f"{title}: " + " ".join(f"{x:.0f}" for x in books.stairs)
        for title, (_, books) in panels.items()
    )
    figure, several = canvas(
        f"Gathered when needed, at most {few:.0f} of {many:.0f} layers {verb} whole at once",
        f"Whole layers on rank 0 after each line of a schedule. {said}.",
        size=(7, 2.6 * len(panels)), rows=len(panels), squeeze=False,
    )  # fmt: skip
    for axes, (title, (lines, books)) in zip(several[:, 0], panels.items(), strict=True):
        words = [word(line) for line in lines if not isinstance(line, OptimizerStep)]
        axes.bar(range(len(books.stairs)), books.stairs, 0.9, color=LOOKS["weights"].colour)
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=9)
        axes.set(ylabel="whole layers", ylim=(0, many + 0.3))
        axes.set_title(title, loc="left")
        axes.set_yticks(range(int(many) + 1))
    return figure


def word(line: Instruction) -> str:
    """A line of a schedule as a picture writes it: `Free 2`."""
    name = type(line).__name__
    return f"{name} {getattr(line, 'block', '')}".strip()
