"""Pictures of number formats: what they reach, where gradients lie in them, curves of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import bits, label_ends
from dtlib.learn.drawing import INK, LOOKS, box, canvas, key

from .formats import limits

DASHES = ("-", "--", ":", "-.")
# sign, exponent and mantissa
FIELDS = {
    "fp32, 32 bits": (1, 8, 23), "TF32, 19 are read": (1, 8, 10), "bf16, 16": (1, 8, 7),
    "fp16, 16": (1, 5, 10), "fp8 e5m2, 8": (1, 5, 2), "fp8 e4m3, 8": (1, 4, 3),
    "fp4 e2m1, 4": (1, 2, 1),
}  # fmt: skip
LOST = LOOKS["communication"].colour
RANGE = (-40.0, 26.0)  # powers of two that a picture of gradients shows


def draw_question() -> Any:
    """Draw what fp16 and bf16 lose: numbers out of reach, and steps between neighbours.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    figure, panels = canvas(
        "fp16 loses what is too small or too large, bf16 loses small steps",
        "Above, on a scale of powers of two: fp16 reaches from 2^-24 to 2^16, so a gradient of"
        " 2^-30 becomes 0 and an activation of 2^20 becomes infinite; bf16 reaches both. Below:"
        " the numbers between 1 and 1.016. bf16 has three of them, at 1, 1.0078 and 1.0156, so"
        " 1.001 is rounded back to 1; fp16 has one every 0.001.",
        size=(7, 4), rows=2, height_ratios=(1, 1),
    )  # fmt: skip
    for row, name in enumerate(("fp16", "bf16")):
        ends = limits(name)
        low, high = (math.log2(ends[key]) for key in ("smallest", "largest"))
        low, high = max(low, -40), min(high, 30)
        box(panels[0], low, row, high - low, "other", height=0.5)
        start = 1.0
        while start < 1.0157:
            panels[1].plot([start, start], [row - 0.25, row + 0.25], "-", color=INK)
            start += ends["eps"]
    for x, words in ((-30, "a gradient\n2⁻³⁰"), (20, "an activation\n2²⁰")):
        panels[0].plot([x, x], [-0.5, 1.5], "-", color=LOST)
        panels[0].text(x, -0.6, words, ha="center", va="bottom")
    panels[0].set(xlim=(-40, 30), ylim=(1.5, -2), xlabel="log2 of the size of a number")
    panels[1].plot([1.001, 1.001], [-0.5, 1.5], "-", color=LOST)
    panels[1].text(1.0012, -0.6, "1 + 0.001", va="bottom")
    panels[1].set(xlim=(0.9995, 1.0163), ylim=(1.5, -1.2), xlabel="the numbers next to 1")
    for axes in panels:
        axes.set_yticks([0, 1], ["fp16", "bf16"])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure


def draw_fields() -> Any:
    """Draw the bits of seven formats to scale.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    figure, axes = canvas(
        "bf16 and TF32 reach as far as fp32; fp16 and TF32 have the same mantissa",
        "A row for each format, a box for each bit: sign, exponent and mantissa. "
        + "; ".join(
            f"{name}: {e} of exponent, {m} of mantissa" for name, (_, e, m) in FIELDS.items()
        ),
        size=(7, 4.2),
    )
    bits(axes, FIELDS)
    return figure


def draw_limits(reach: Mapping[str, Sequence[float]]) -> Any:
    """Draw how far formats reach, as bars over powers of two.

    Parameters
    ----------
    reach
        For each format its largest number, smallest normal, smallest, and eps.

    Returns
    -------
    matplotlib.figure.Figure
    """
    spans = {name: math.log2(row[0] / row[2]) for name, row in reach.items()}
    figure, axes = canvas(
        "The more exponent bits, the further a format reaches",
        "From the smallest to the largest number, in powers of two: "
        + "; ".join(f"{name} covers {span:.0f}" for name, span in spans.items()),
        size=(7, 3.2),
    )
    for place, row in enumerate(reach.values()):
        largest, normal, smallest = (math.log2(v) for v in row[:3])
        box(axes, normal, place, largest - normal, "other", height=0.6)
        box(axes, smallest, place, normal - smallest, "waiting", height=0.6)
        axes.text(132, place, f"eps 2$^{{{math.log2(row[3]):.0f}}}$", va="center")
    axes.set_yticks(range(len(reach)), list(reach))
    axes.set(xlabel="log2 of the size of a number", xlim=(-153, 172), ylim=(len(reach) - 0.5, -0.5))
    key(figure, ("other", "waiting"), {"other": "all digits", "waiting": "fewer and fewer digits"})
    return figure


def draw_gradients(gradients: Any, scales: Sequence[float], name: str = "fp16") -> Any:
    """Draw how many gradients have which size, at several loss scales, in a format's ends.

    Parameters
    ----------
    gradients
        A 1-D tensor of sizes, above 0.
    scales
        What they are multiplied by.
    name
        The format.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = canvas(
        "A loss scale moves gradients to where fp16 has all its digits",
        f"How many gradients have which size, for loss scales {', '.join(map(str, scales))}, with"
        f" the smallest, the smallest normal and the largest number of {name} as lines.",
        size=(7, 3.4),
    )
    for scale, dashes in zip(scales, DASHES, strict=False):
        sizes = (gradients * scale).log2().numpy()
        counts, edges, _ = axes.hist(sizes, 80, range=RANGE, histtype="step", ls=dashes, lw=1.6)
        peak = int(counts.argmax())
        axes.annotate(
            f"times {scale:,}", (edges[peak], counts[peak]), (0, 3), textcoords="offset points",
            ha="center",
        )  # fmt: skip
    top = axes.get_ylim()[1]
    axes.set_ylim(0, 1.4 * top)
    names = {"smallest": "smallest", "smallest_normal": "smallest\nnormal", "largest": "largest"}
    for end_of, text in names.items():
        end = math.log2(limits(name)[end_of])
        axes.axvline(end, color=INK, lw=1, ls="-")
        axes.text(end + 0.4, 1.38 * top, text, va="top")
    axes.set(xlabel="log2 of the size of a gradient", ylabel="how many")
    return figure


def draw_curves(
    title: str, curves: Mapping[str, Sequence[float]], x: str, y: str, base: int | None = None
) -> Any:
    """Draw curves over steps 1, 2, … that lie on one another, each with dashes of its own.

    Parameters
    ----------
    title
        The sentence that the picture shows.
    curves
        Label to one number a step.
    x, y
        Labels of the axes.
    base
        Of a logarithmic y axis; without one it is linear.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.ticker import MaxNLocator

    said = "; ".join(f"{k} goes from {v[0]:.3g} to {v[-1]:.3g}" for k, v in curves.items())
    figure, axes = canvas(title, f"{y} over {x}: {said}.", size=(7, 3))
    widths = (5.0, 2.0, 2.0, 1.5)
    if base:
        axes.set_yscale("log", base=base)
    axes.set(xlabel=x, ylabel=y)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    ends = []
    for number, (label, values) in enumerate(curves.items()):
        (line,) = axes.plot(
            range(1, len(values) + 1), values, ls=DASHES[number % 4], lw=widths[number % 4],
            alpha=0.5 if number == 0 else 1,
        )  # fmt: skip
        ends.append((label, (float(len(values)), float(values[-1])), str(line.get_color())))
    label_ends(axes, ends)
    return figure
