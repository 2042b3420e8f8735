"""The course's visual language: who holds what, who sends to whom, what happens when.

A rank is a row with its number; time runs to the right. Weights, gradients, optimizer state,
activations and communication have one colour and one hatch each. Whole is a filled box, a shard a
filled part of an outline; measured is solid, simulated is dashed and says so. `canvas` opens a
picture, the other functions draw on its axes, and a cell whose last expression it is shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from dtlib.errors import BadInput
from dtlib.learn import figures

INK, PAPER = "#000000", "#ffffff"  # the page's text and background, whatever they are
DARK, LIGHT = "#0b0b0b", "#fefefe"  # text on a filled box, whatever the page is
LINE_HEIGHT = 1.35  # of labels stacked above each other, in font sizes


class Look(NamedTuple):
    """Colour, hatch, and how solid the colour is."""

    colour: str
    hatch: str = ""
    alpha: float = 1.0


LOOKS = {
    "weights": Look("#5f8cc4"),
    "gradients": Look("#b86a08", "///"),
    "optimizer": Look("#2fa385", "..."),
    "activations": Look("#cd2ee8", "\\\\\\"),
    "communication": Look("#cd1242", "|||"),
    # Anything else has no colour, only shades of the page's text.
    "other": Look(INK, "", 0.25),
    "waiting": Look(INK, "xxx", 0.0),
    "outline": Look(INK, "", 0.0),
}
# On a timeline, work has the colour of what it makes: activations, gradients, new state.
LOOKS |= {
    "forward": LOOKS["activations"],
    "backward": LOOKS["gradients"],
    "update": LOOKS["optimizer"],
}


class Picture(Figure):
    """A figure that must have a text alternative; a cell's last expression shows it."""

    alt: str = ""

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        return figures.markup(self)


def canvas(
    title: str, alt: str, size: tuple[float, float] = (7, 3), rows: int = 1, columns: int = 1,
    **options: Any,
) -> tuple[Picture, Any]:  # fmt: skip
    """Open a picture.

    Parameters
    ----------
    title
        The sentence that the picture shows: "Backward hides 8 of 10 messages".
    alt
        Everything that the picture says, for a reader who cannot see it.
    size
        Width and height in inches; seven inches are as wide as a page's text.
    rows, columns
        Number of rows and columns of panels.
    **options
        Passed to matplotlib's `subplots`: `sharey=True`, `width_ratios=[2, 1]`.

    Returns
    -------
    figure, axes
        As from `plt.subplots`: one axes, or an array of them.

    Raises
    ------
    BadInput
        Without a title, or without an `alt` that says more than the title.
    """
    if not title.strip():
        raise BadInput("a picture needs a title: the sentence that it shows.")
    if len(alt.split()) < 4 or alt.strip() == title.strip():
        raise BadInput("a picture needs alt: a description that says more than its title.")
    figure = Picture(figsize=size, layout="constrained")
    figure.alt = f"{title if title.endswith('?') else title.rstrip('.') + '.'} {alt}"
    figure.suptitle(title, x=0.01, ha="left")
    return figure, figure.subplots(rows, columns, **options)


def bare(axes: Axes, width: float, height: float) -> None:
    """Turn axes into a blank sheet from 0 to `width` and, downwards, -0.5 to `height` - 0.5."""
    axes.set(xlim=(0, width), ylim=(height - 0.5, -0.5), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def ranks(axes: Axes, count: int, width: float = 1, name: str = "rank") -> None:
    """Turn axes into a sheet with a row per rank, from 0 to `width`, its number on the left."""
    bare(axes, width, count)
    axes.set_yticks(range(count), [f"{name} {rank}" for rank in range(count)])
    axes.tick_params(axis="y", length=0)


def box(
    axes: Axes, x: float, row: float, width: float = 1, kind: str = "outline", text: str = "",
    part: tuple[float, float] = (0, 1), height: float = 0.7, simulated: bool = False,
) -> Rectangle:  # fmt: skip
    """Draw a box whose left edge is at `x` and whose middle is at `row`.

    Parameters
    ----------
    kind
        One of `LOOKS`.
    part
        The part of the outline to fill: (0, 1) is all of it, (r/N, (r + 1)/N) is rank r's shard.
        The text is in that part.
    simulated
        Whether the frame is dashed.

    Returns
    -------
    matplotlib.patches.Rectangle
        The filled part.
    """
    look = _look(kind)
    top, (first, last) = row - height / 2, part
    dash = "--" if simulated else "-"
    filled = Rectangle(
        (x + first * width, top), (last - first) * width, height, linewidth=0,
        facecolor=(look.colour, look.alpha), hatch=look.hatch, edgecolor=(INK, 0.45),
    )  # fmt: skip
    axes.add_patch(filled)
    axes.add_patch(Rectangle((x, top), width, height, fill=False, edgecolor=INK, linestyle=dash))
    if text:
        middle = x + (first + last) / 2 * width
        said = axes.text(middle, row, text, ha="center", va="center", color=ink(kind))
        if look.hatch or part != (0, 1):
            paper = look.colour if look.alpha else PAPER
            said.set_bbox({"facecolor": paper, "edgecolor": "none", "pad": 1.5})
    return filled


def ink(kind: str) -> str:
    """The text colour on a kind's fill, in light and dark; the page's where nothing is filled."""
    if _look(kind).alpha < 1:
        return INK
    return LIGHT if kind == "communication" else DARK


def send(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "",
    kind: str = "communication", bend: float = 0.0, simulated: bool = False,
) -> FancyArrowPatch:  # fmt: skip
    """Draw an arrow from one (x, row) to another: a message or, with `kind="outline"`, a call.

    `bend` curves it to one side by this fraction of its length; `text` is beside its middle.
    """
    arrow = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=12, linewidth=2, shrinkA=2, shrinkB=2,
        color=_look(kind).colour, linestyle="--" if simulated else "-",
        connectionstyle=f"arc3,rad={bend}",
    )  # fmt: skip
    axes.add_patch(arrow)
    if text:
        (x0, y0), (x1, y1) = start, end
        x, y = (x0 + x1) / 2 + bend * (y1 - y0) / 2, (y0 + y1) / 2 - bend * (x1 - x0) / 2
        beside = abs(y1 - y0) > 0
        axes.annotate(
            text, (x, y), (6, 0) if beside else (0, 4), textcoords="offset points",
            ha="left" if beside else "center", va="center" if beside else "bottom",
        )  # fmt: skip
    return arrow


class Span(NamedTuple):
    """A bar on a timeline: its rank, start, end, kind and label."""

    rank: int
    start: float
    end: float
    kind: str
    label: str = ""


def timeline(
    axes: Axes, spans: Sequence[Span | tuple[Any, ...]], simulated: bool = False,
    unit: str = "ms", names: Sequence[str] = (),
) -> None:  # fmt: skip
    """Draw what happens when: a row per rank, a bar per `Span`; simulated bars are dashed.

    `names` label the rows, by default "rank 0", "rank 1", … To draw a second row under a rank, for
    instance for its network, give that row a rank number and a name of its own.
    """
    bars = [Span(*span) for span in spans]
    count = 1 + max(bar.rank for bar in bars)
    ranks(axes, count, 1.02 * max(bar.end for bar in bars))
    if names:
        axes.set_yticks(range(count), list(names))
    for bar in bars:
        box(axes, bar.start, bar.rank, bar.end - bar.start, bar.kind, bar.label,
            simulated=simulated)  # fmt: skip
    axes.xaxis.set_major_locator(_ticks())
    axes.spines["bottom"].set_visible(True)
    axes.set_xlabel(f"time, {unit}" + (" (simulated)" if simulated else ""))


def key(figure: Figure, kinds: Sequence[str], words: Mapping[str, str] | None = None) -> None:
    """Add a legend of the colours below a picture whose boxes have no room for words."""
    said, patches = words or {}, []
    for kind in kinds:
        patch = Patch(hatch=_look(kind).hatch, edgecolor=(INK, 0.45), label=said.get(kind, kind))
        patch.set_facecolor((_look(kind).colour, _look(kind).alpha))
        patches.append(patch)
    figure.legend(handles=patches, loc="outside lower left", ncols=min(4, len(patches)))


def _look(kind: str) -> Look:
    if kind not in LOOKS:
        raise BadInput(f"unknown kind {kind!r}: use one of {', '.join(LOOKS)}.")
    return LOOKS[kind]


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, steps=[1, 2, 5, 10])
