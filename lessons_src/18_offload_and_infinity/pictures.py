"""Lesson 18's pictures: its question, where everything lies, bytes counted, a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.drawing import INK, Span, bare, box, canvas, key, send, timeline

PARAMETERS = 13  # billions; the lesson's opening question
EACH = {"weights": 2, "gradients": 2, "optimizer": 12}  # bytes a parameter, mixed precision
SHORT = {"weights": "W", "gradients": "G", "optimizer": "O"}
PLACES = ("GPU", "host", "disk")
# Where each kind of state lies: row of PLACES, and its share; then what moves: from row to row.
WAYS: dict[str, tuple[dict[str, tuple[int, bool]], list[tuple[int, int, str]]]] = {
    "zero3": ({"weights": (0, True), "gradients": (0, True), "optimizer": (0, True)}, []),
    "offload": (
        {"weights": (0, False), "gradients": (1, True), "optimizer": (1, True)},
        [(0, 1, "G 2"), (1, 0, "W 2")],
    ),
    "infinity": (
        {"weights": (2, True), "gradients": (1, True), "optimizer": (2, True)},
        [(0, 1, "G 2"), (1, 0, "W 2 + 2"), (1, 2, "W 2, O 12"), (2, 1, "W 2 + 2, O 12")],
    ),
}


def draw_question() -> Any:
    """The states of a model beside the memory of a card, to scale."""
    sizes = {kind: size * PARAMETERS for kind, size in EACH.items()}
    said = ", ".join(f"{size} GB of {kind}" for kind, size in sizes.items())
    total = sum(sizes.values())
    figure, axes = canvas(
        f"{total} GB of states, and a card with 32. Where is the rest, and what must travel?",
        f"Two bars to scale: a V100 with 32 GB, and the states of {PARAMETERS} billion parameters: "
        f"{said}. Arrows with a question mark lead from the states to the card and back.",
        size=(7, 2.4),
    )
    bare(axes, total + 2, 3)
    axes.set_yticks([0, 2], ["one V100", f"{PARAMETERS} billion\nparameters"])
    axes.tick_params(axis="y", length=0)
    box(axes, 0, 0, 32, "outline", "32 GB")
    x = 0.0
    for kind, size in sizes.items():
        words = f"{kind}\n{size} GB" if size > 30 else f"{size}"
        box(axes, x, 2, size, kind, words)
        x += size
    send(axes, (9, 1.6), (9, 0.4), "?")
    send(axes, (21, 0.4), (21, 1.6), "?")
    key(figure, ["weights", "gradients", "optimizer"], {"optimizer": "optimizer state"})
    return figure


def draw_places() -> Any:
    """Where a rank's states lie under three ways, and what moves in a step of one micro-batch."""
    figure, panels = canvas(
        "Adam runs on the host; its state lies there, or comes from the disk",
        "Three panels with rows GPU, host and disk. Under zero3 shares of weights, gradients and "
        "optimizer lie on the GPU, and no bus is used. Under offload all weights are on the GPU; "
        "shares of gradients and optimizer on the host. Gradients go down, 2 bytes a parameter of "
        "the share, new weights up, 2 bytes. Under infinity shares of weights and optimizer lie on "
        "the disk, gradients on the host, and one layer at a time on the GPU. In each step the "
        "disk is read for weights, 2 bytes for forward and 2 for backward, and for 12 bytes of "
        "optimizer state, and 2 + 12 bytes are written; weights go on to the GPU twice, and "
        "gradients come down.",
        size=(7, 3.9), columns=3, width_ratios=[4, 6, 9.4],
    )  # fmt: skip
    for axes, (way, (lie, moves)) in zip(panels, WAYS.items(), strict=True):
        width = {"zero3": 4, "offload": 6, "infinity": 9.4}[way]
        bare(axes, width, 3)
        axes.set_title(way)
        if way == "zero3":
            axes.set_yticks(range(3), PLACES)
            axes.tick_params(axis="y", length=0)
        if way == "infinity":
            box(axes, 0.1, 0, 2.4, "outline", "one layer", height=0.5)
        free = dict.fromkeys(range(3), 0.1)
        for kind, (row, shared) in lie.items():
            box(axes, free[row], row, 1.1, kind, SHORT[kind], part=(0, 0.5) if shared else (0, 1),
                height=0.5)  # fmt: skip
            free[row] += 1.3
        for number, (start, end, words) in enumerate(moves):
            x = (3.1, 5.9 if way == "infinity" else 4.6)[number % 2]
            down = 1 if end > start else -1
            send(axes, (x, start + 0.15 * down), (x, end - 0.15 * down), words)
    key(
        figure, ["weights", "gradients", "optimizer"],
        {"weights": "W weights", "gradients": "G gradients", "optimizer": "O optimizer state"},
    )  # fmt: skip
    return figure


def draw_counted(counted: Mapping[str, float], rule: Mapping[str, float]) -> Any:
    """Bytes a parameter that the disk moved, by direction and kind; black marks for the rule."""
    said = "; ".join(f"{name} {value:.3g}, rule {rule[name]:g}" for name, value in counted.items())
    total = sum(counted.values())
    state = sum(value for name, value in counted.items() if "optimizer" in name)
    figure, axes = canvas(
        f"{100 * state / total:.0f} % of what the disk moves in a step is optimizer state",
        f"Bars of bytes a parameter, counted: {said}.",
        size=(7, 2.8),
    )
    for row, (name, value) in enumerate(counted.items()):
        kind = "optimizer" if "optimizer" in name else "weights"
        box(axes, 0, row, value, kind, f"{value:.2f}" if value > 2 else "", height=0.6)
        axes.plot([rule[name]] * 2, [row - 0.4, row + 0.4], "-", color=INK, linewidth=3)
    axes.annotate("the rule", (rule["read weights"], -0.4), (5, 0), textcoords="offset points",
                  va="center")  # fmt: skip
    axes.set_yticks(range(len(counted)), list(counted))
    axes.set(
        xlim=(0, 1.15 * max(rule.values())), ylim=(len(counted) - 0.4, -0.7),
        xlabel="bytes a parameter of the rank's share",
    )  # fmt: skip
    return figure


def draw_schedule(
    done: Mapping[int, Sequence[tuple[float, float, float]]], spent: Sequence[Sequence[float]]
) -> Any:
    """Timelines of reader, updater and writer, one for each number of windows.

    Parameters
    ----------
    done
        By number of windows: when each chunk is read, updated and written, in seconds.
    spent
        Seconds of reading, updating and writing of each chunk.
    """
    ends = {windows: 1000 * rows[-1][2] for windows, rows in done.items()}
    said = "; ".join(f"{windows} windows end after {end:.3g} ms" for windows, end in ends.items())
    most = max(ends.values())
    figure, panels = canvas(
        f"A second window: {ends[1] / ends[2]:.2f} times as fast, simulated from your seconds",
        f"Timelines of reading, updating and writing {len(spent[0])} chunks, simulated: {said}.",
        size=(7, 5.4), rows=len(done),
    )  # fmt: skip
    kinds = ("communication", "update", "communication")
    for axes, (windows, rows) in zip(panels, done.items(), strict=True):
        spans = [
            Span(part, 1000 * (end - spent[part][i]), 1000 * end, kinds[part])
            for i, ends_ in enumerate(rows)
            for part, end in enumerate(ends_)
        ]
        timeline(axes, spans, simulated=True, names=["read", "update", "write"])
        axes.set_xlim(0, 1.02 * most)
        axes.set_title(f"{windows} window{'s' * (windows > 1)}")
    return figure
