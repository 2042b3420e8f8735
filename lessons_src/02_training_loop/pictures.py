"""Pictures of lesson 02: what luck explains, and how micro-batches fill `.grad`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import lines
from dtlib.learn.drawing import INK, bare, box, canvas, key, send

from .what_if import standard_error

BEFORE, AFTER = 61, 64  # per cent, of the lesson's first sentence


def draw_luck(pictures: Sequence[int] = (500, 5000)) -> Any:
    """Draw where two accuracies may lie by the luck of their test pictures, by the formula.

    Parameters
    ----------
    pictures
        How many test pictures; two numbers, a panel each.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    few, many = pictures
    figure, panels = canvas(
        f"{many:,} test pictures leave far less to luck than {few:,}",
        "A bar shows two standard errors on either side of an accuracy, by the binomial formula. "
        + " ".join(
            f"On {n:,} pictures: {_around(BEFORE, n)} before and {_around(AFTER, n)} after."
            for n in pictures
        ),
        size=(7, 2.4), columns=2, sharex=True, sharey=True,
    )  # fmt: skip
    for axes, n in zip(panels, pictures, strict=True):
        for row, percent in enumerate((BEFORE, AFTER)):
            half = 200 * standard_error(percent / 100, n)
            box(axes, percent - half, row, 2 * half, "other", height=0.4, simulated=True)
            axes.plot([percent], [row], "o", color=INK)
            axes.annotate(f"{percent} %", (percent, row), (0, 16), textcoords="offset points",
                          ha="center")  # fmt: skip
        axes.set(
            xlim=(55, 70), xticks=range(55, 71, 5), ylim=(1.6, -0.8), title=f"{n:,} test pictures"
        )
        axes.set_yticks([0, 1], ["before", "after"])
        axes.set_xlabel("accuracy, % (bars: computed)")
    return figure


def _around(percent: float, pictures: int) -> str:
    half = 200 * standard_error(percent / 100, pictures)
    return f"{percent - half:.1f} to {percent + half:.1f} %"


def draw_accumulation(sizes: Sequence[int] = (16, 16, 8)) -> Any:
    """Draw `.grad` filling while micro-batches come and go, and the one step at the end.

    Parameters
    ----------
    sizes
        Pictures in each micro-batch.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    total, wide = sum(sizes), 2.3
    figure, axes = canvas(
        "Each micro-batch fills .grad by its share of the pictures",
        f"Micro-batches of {', '.join(map(str, sizes))} pictures, one after the other. The"
        " activations of each are in memory only until its backward. After them the gradient holds "
        + ", ".join(f"{sum(sizes[: k + 1])}/{total}" for k in range(len(sizes)))
        + " of the mean over all pictures; then the optimizer takes one step.",
        size=(7, 3.4),
    )
    bare(axes, wide * (len(sizes) + 1) + 0.2, 3)
    axes.set_yticks([0, 1, 2], ["pictures whose\nactivations are\nin memory", ".grad", "weights"])
    axes.tick_params(axis="y", length=0)
    seen = 0
    for k, size in enumerate(sizes):
        x = 0.1 + k * wide
        axes.text(x, -0.62, f"micro-batch {k + 1}", va="bottom")
        box(axes, x, 0, 2 * size / max(sizes), "activations", str(size))
        seen += size
        box(axes, x, 1, 2, "gradients", f"{seen}/{total}", part=(0, seen / total))
        send(axes, (x + 0.3, 0.35), (x + 0.3, 0.65), f"+ {size}/{total} · mean", kind="outline")
    x = 0.1 + len(sizes) * wide
    axes.text(x, -0.62, "step", va="bottom")
    box(axes, x, 2, 2, "weights", "moved once")
    send(axes, (x - wide + 1.5, 1.35), (x, 1.9), kind="outline")
    axes.set_ylim(2.5, -0.9)
    key(figure, ("activations", "gradients", "weights"))
    return figure


def draw_losses(
    title: str,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    top: float | None = None,
    x: str = "step",
    mark: tuple[float, str] | None = None,
) -> Any:
    """Draw losses over steps, or over learning rates.

    Parameters
    ----------
    title
        The sentence that the picture shows.
    curves
        For each label its x and its losses, in nats.
    top
        Largest loss that is shown.
    x
        Label of the x axis; learning rates are on a logarithmic one.
    mark
        A place on the x axis, and the word beside it.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    ends = "; ".join(
        f"{label} goes from {losses[0]:.3g} to {losses[-1]:.3g} nats"
        for label, (_, losses) in curves.items()
    )
    figure, axes = canvas(title, f"Loss over {x}: {ends}.", size=(7, 3.2))
    axes.set(xlabel=x, ylabel="loss, nats")
    if x != "step":
        axes.set_xscale("log")
    if top:
        axes.set_ylim(0, top)
    if mark:
        place, word = mark
        axes.axvline(place, color=INK, linestyle="-", linewidth=1)
        axes.annotate(word, (place, axes.get_ylim()[1]), (4, -4), textcoords="offset points",
                      va="top")  # fmt: skip
    if len(curves) == 1:  # its name is that of the axis
        axes.plot(*next(iter(curves.values())), "o-", markersize=3)
    else:
        lines(axes, curves, marker="o", markersize=3)
    return figure
