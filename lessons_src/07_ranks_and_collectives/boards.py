"""What people draw on a whiteboard of lesson 07: its question, the collectives, two nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import lines
from dtlib.learn.drawing import INK, bare, box, canvas, key, send

LISTS = ("scatter", "reduce_scatter", "all_to_all")  # these begin with a number for each rank
SUMS = {111, 222, 333}


def draw_question() -> Any:
    """The rank that collects, and those that wait."""
    figure, axes = canvas(
        "If rank 0 collects them all, it receives 25.2 GB and 63 ranks wait",
        "Ranks 1, 2, 3 and so on up to 63 each send a gradient of 400 MB to rank 0, one after the "
        "other. Rank 0 would have to send the mean back to each of them.",
        size=(7, 2.4),
    )
    bare(axes, 10, 4)
    box(axes, 0.3, 1.5, 2.6, "gradients", "rank 0: the sum", height=1.2)
    for row, name in enumerate(("rank 1", "rank 2", "…", "rank 63")):
        if name == "…":
            axes.text(8.1, row, name, ha="center", va="center", color=INK)
            continue
        box(axes, 6.8, row, 2.6, "gradients", f"{name}: 400 MB")
        send(axes, (6.75, row), (2.95, 1.1 + 0.27 * row))
    return figure


def draw_collectives(shared: Mapping[str, Sequence[Sequence[float]]]) -> Any:
    """Before and after each collective; `shared[name][rank]` is what that rank held.

    "before" and "before, a list" are what they begin with. Sums are filled.
    """
    names = [name for name in shared if not name.startswith("before")]
    said = "; ".join(f"{name}: {_held(shared[name])}" for name in names)
    starts = f"Before: {_held(shared['before'])}, or {_held(shared['before, a list'])}"
    rows = -(-len(names) // 2)
    figure, panels = canvas(
        "Eight ways to copy, sum or swap what three ranks hold",
        f"{starts}. After {said}.",
        size=(7, 1.45 * rows + 0.6), rows=rows, columns=2, squeeze=False,
    )  # fmt: skip
    for axes, name in zip(panels.flat, names, strict=False):
        _panel(axes, name, shared["before, a list" if name in LISTS else "before"], shared[name])
    for axes in panels.flat[len(names) :]:
        axes.remove()
    key(
        figure,
        ["outline", "gradients", "waiting"],
        {"outline": "as it was brought", "gradients": "a sum", "waiting": "left over, no result"},
    )
    return figure


def _panel(axes: Any, name: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    bare(axes, 7.6, len(before))
    axes.set_yticks(range(len(before)), [f"rank {rank}" for rank in range(len(before))])
    axes.tick_params(axis="y", length=0)
    axes.set_title(name, loc="left")
    for rank, (had, has) in enumerate(zip(before, after, strict=True)):
        if name != "scatter" or rank == 0:  # nobody reads the other lists
            _numbers(axes, 0.1, rank, had)
        send(axes, (3.2, 0 if name == "scatter" else rank), (4.3, rank))
        _numbers(axes, 4.4, rank, has, left_over=name in ("reduce", "gather") and rank > 0)


def _numbers(
    axes: Any, x: float, rank: int, values: Sequence[float], left_over: bool = False
) -> None:
    for k, value in enumerate(values):
        kind = "waiting" if left_over else "gradients" if value in SUMS else "outline"
        box(axes, x + k, rank, 0.94, kind, f"{value:g}", height=0.8)


def _held(ranks: Sequence[Sequence[float]]) -> str:
    return ", ".join(
        f"rank {rank} has {' '.join(f'{value:g}' for value in values)}"
        for rank, values in enumerate(ranks)
    )


def draw_node() -> Any:
    """Two nodes: GPUs, the switch inside each, an adapter for each GPU, and the network."""
    figure, axes = canvas(
        "A GPU reaches its own node nine times as fast as another node",
        "Two nodes with four GPUs each. Thick lines join each GPU to the NVLink switch of its "
        "node, at 450 GB/s in each direction. A thin line leads from each GPU through an adapter "
        "of its own to the InfiniBand network between the nodes, at 50 GB/s.",
        size=(7, 3.2),
    )
    bare(axes, 10.4, 5)
    for node in (0, 1):
        left = 0.3 + 5.1 * node
        box(axes, left, 1.15, 4.7, height=3.2)
        axes.text(left + 0.1, -0.3, f"node {node}", color=INK, va="center")
        box(axes, left + 0.2, 0.3, 4.3, "other", "NVLink switch, 450 GB/s per GPU")
        for gpu in range(4):
            x = left + 0.25 + 1.1 * gpu
            box(axes, x, 1.35, 0.9, "weights", f"rank {4 * node + gpu}")
            box(axes, x + 0.15, 2.4, 0.6, "other", height=0.35)
            axes.plot([x + 0.45] * 2, [0.65, 1.0], color=INK, linestyle="-", linewidth=5)
            axes.plot([x + 0.45] * 2, [1.7, 2.2], color=INK, linestyle="-", linewidth=1)
            axes.plot([x + 0.45] * 2, [2.6, 3.45], color=INK, linestyle="-", linewidth=1)
    box(axes, 0.3, 3.8, 9.8, "other", "InfiniBand switches, 50 GB/s per adapter")
    axes.text(5.2, 3.05, "adapters", color=INK, va="center", ha="center")
    return figure


def draw_messages(sizes: Sequence[float], measured: Sequence[float], line: Sequence[float]) -> Any:
    """Microseconds of one message by its bytes: measured as dots, the fitted line dashed."""
    figure, axes = canvas(
        "A small message costs α; a large one costs its bytes",
        alt=f"Microseconds for one message by its size, both on logarithmic axes: measured from "
        f"{measured[0]:.3g} µs at {sizes[0]} bytes to {measured[-1]:.3g} µs at {sizes[-1]:,}; the "
        "line α + Sβ is flat at first and then rises with the size.",
        size=(6, 3.2),
    )
    axes.set(xscale="log", yscale="log", xlabel="S, bytes", ylabel="µs for one message")
    axes.plot(sizes, measured, "o", label="measured")
    lines(axes, {"α + Sβ": (sizes, line)}, linestyle="--")
    axes.legend(frameon=False, handles=axes.get_lines()[:1])
    return figure
