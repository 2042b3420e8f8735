"""Pictures of number formats: what they reach, where gradients lie in them, curves of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .formats import limits

DASHES = ("-", "--", ":", "-.")
RANGE = (-40.0, 26.0)  # powers of two that a picture of gradients shows


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
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    for place, row in enumerate(reach.values()):
        largest, normal, smallest = (math.log2(v) for v in row[:3])
        words = ("all digits", "fewer and fewer digits") if place == 0 else (None, None)
        axes.barh(place, largest - normal, left=normal, color="C0", label=words[0])
        axes.barh(place, normal - smallest, left=smallest, color="C1", hatch="///", label=words[1])
        axes.text(132, place, f"eps 2$^{{{math.log2(row[3]):.0f}}}$", va="center")
    axes.set_yticks(range(len(reach)), list(reach))
    axes.invert_yaxis()
    axes.set(xlabel="log2 of the size of a number", xlim=(-153, 172))
    axes.legend(loc="lower left", fontsize=8)
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
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for scale, dashes in zip(scales, DASHES, strict=False):
        sizes = (gradients * scale).log2().numpy()
        words = f"times {scale:,}"
        axes.hist(sizes, 80, range=RANGE, histtype="step", ls=dashes, lw=1.6, label=words)
    top = axes.get_ylim()[1]
    axes.set_ylim(0, 1.25 * top)
    names = {"smallest": "smallest", "smallest_normal": "smallest\nnormal", "largest": "largest"}
    for key, text in names.items():
        end = math.log2(limits(name)[key])
        axes.axvline(end, color="black", lw=1)
        axes.text(end + 0.4, 1.23 * top, text, va="top", fontsize=9)
    axes.set(xlabel="log2 of the size of a gradient", ylabel="how many")
    axes.legend(loc="center left", fontsize=8)
    return figure


def draw_curves(
    curves: Mapping[str, Sequence[float]], x: str, y: str, base: int | None = None
) -> Any:
    """Draw curves over steps 1, 2, … that lie on one another, each with dashes of its own.

    Parameters
    ----------
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
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    widths = (4.0, 2.0, 2.0, 1.5)
    for number, (label, values) in enumerate(curves.items()):
        dashes, width = DASHES[number % 4], widths[number % 4]
        axes.plot(
            range(1, len(values) + 1), values, dashes, lw=width, alpha=0.5 if number == 0 else 1,
            label=label,
        )  # fmt: skip
    if base:
        axes.set_yscale("log", base=base)
    axes.set(xlabel=x, ylabel=y)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return figure
