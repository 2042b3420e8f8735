"""A gather before a product, and a gather that the product's pieces hide, simulated."""

from __future__ import annotations

from typing import Any

from dtlib.learn.drawing import Span, canvas, timeline

from .tp_runs import Table

LANES = ("compute", "messages")


def one_after_the_other(computing: float, sending: float) -> list[Span]:
    """Gather everything, then multiply."""
    return [
        Span(1, 0, sending, "communication", "all-gather"),
        Span(0, sending, sending + computing, "forward", "product"),
    ]


def piece_by_piece(computing: float, sending: float, n: int) -> list[Span]:
    """Multiply the own positions while the next ones arrive, and so on."""
    spans, here, free = [], 0.0, 0.0
    for k in range(n):
        if k:  # piece k arrives in step k of the ring
            spans.append(Span(1, here, here + sending / (n - 1), "communication", str(k)))
            here += sending / (n - 1)
        start = max(free, here)
        free = start + computing / n
        spans.append(Span(0, start, free, "forward", str(k)))
    return spans


def schedules(computing: float, sending: float, n: int) -> dict[str, list[Span]]:
    """Both, by their names."""
    return {
        "One after the other": one_after_the_other(computing, sending),
        "Piece by piece": piece_by_piece(computing, sending, n),
    }


def table(computing: float, sending: float, n: int) -> Table:
    """When each ends."""
    found = schedules(computing, sending, n)
    rows: list[list[Any]] = [
        [name, len(spans), f"{max(span.end for span in spans):.2f}"]
        for name, spans in found.items()
    ]
    return (rows, ["", "messages and products", "ends at, ms"], f"Simulated: {n} ranks")


def draw(computing: float, sending: float, n: int) -> Any:
    """Two lanes for each; dashed, because it is simulated."""
    found = schedules(computing, sending, n)
    first, second = (max(span.end for span in spans) for spans in found.values())
    said = "; ".join(
        f"{name}: " + ", ".join(f"{s.label} from {s.start:.2f} to {s.end:.2f}" for s in spans)
        for name, spans in found.items()
    )
    figure, several = canvas(
        f"Piece by piece, a gather and its product take {second:.1f} ms instead of {first:.1f}",
        f"Simulated: a row of computing and a row of messages. {said}.",
        size=(7, 4), rows=2, sharex=True,
    )  # fmt: skip
    for axes, (name, spans) in zip(several, found.items(), strict=True):
        timeline(axes, spans, simulated=True, names=LANES)
        axes.set_title(name, loc="left")
        axes.set_xlim(0, 1.02 * first)
    several[0].set_xlabel("")
    return figure
