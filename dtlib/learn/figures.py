"""Put a figure on a page: as inline SVG, in the page's colours, with a text alternative.

In a lesson this module is matplotlib's backend (`module://dtlib.learn.figures`), so whatever a cell
draws has the course's font size and colours and follows light and dark mode.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dtlib.learn.show import Shown

FigureCanvas, FigureManager = FigureCanvasAgg, FigureManagerBase

SIZE = 10.5  # points: 14 pixels, like a notebook's text
# Lines of a figure that shows no weights or gradients; dashes tell them apart as well.
COLOURS = ("#5f8cc4", "#b86a08", "#2fa385", "#cd2ee8", "#cd1242")
DASHES = ("-", "--", ":", "-.", (0, (6, 1)))
STYLE: Any = {
    "font.size": SIZE, "axes.titlesize": SIZE, "axes.labelsize": SIZE,
    "figure.titlesize": SIZE, "figure.titleweight": "bold", "legend.fontsize": SIZE,
    "xtick.labelsize": SIZE, "ytick.labelsize": SIZE,
    "figure.facecolor": "none", "savefig.facecolor": "none", "axes.facecolor": "none",
    "legend.facecolor": "none", "legend.framealpha": 0, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES),
    "lines.linewidth": 2, "hatch.linewidth": 0.8, "grid.alpha": 0.3, "figure.dpi": 100,
}  # fmt: skip
# matplotlib's black becomes the page's text colour, and its white the page's background.
PAPER = "var(--jp-layout-color0,var(--pst-color-background,Canvas))"
_SCREEN = "max-width:100%;height:auto;min-width:min(100%,32rem)"


def use() -> None:
    """Give all figures of this process the course's look."""
    matplotlib.rcParams.update(STYLE)


def markup(figure: Figure, alt: str = "") -> str:
    """A figure as HTML: an SVG whose text, lines and background have the page's colours.

    Parameters
    ----------
    figure
        The drawing. Its black becomes the page's text colour, its white the page's background.
    alt
        The figure in words, for a reader who cannot see it; by default the figure's `alt`, or its
        titles and labels if it has none.
    """
    words = " ".join((alt or getattr(figure, "alt", "") or described(figure)).split())
    salt = hashlib.sha256(words.encode()).hexdigest()[:8]
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"\s*<metadata>.*?</metadata>", "", drawn, flags=re.S)
    drawn = _named(_coloured(drawn), "f" + hashlib.sha256(drawn.encode()).hexdigest()[:8])
    look = f"fill:currentColor;{_SCREEN}".replace("100%,32rem", f"{_width(drawn)}px,32rem")
    said = html.escape(words, quote=True)
    head = f'<svg role="img" aria-label="{said}" style="{look}" class="dtlib-figure-drawing"'
    return (
        '<div class="dtlib-figure" style="overflow-x:auto" tabindex="0">'
        f"{drawn.replace('<svg', head, 1)}</div>"
    )


def _width(drawn: str) -> int:
    found = re.search(r'<svg[^>]* width="([\d.]+)pt"', drawn)
    return round(float(found[1]) * 4 / 3) if found else 512


def _coloured(drawn: str) -> str:
    """Use the page's colours and font: DejaVu, which measured the text, is wider than most."""
    drawn = re.sub(r"(fill|stroke): #000000", r"\1: currentColor", drawn)
    drawn = re.sub(r"(fill|stroke): #ffffff", rf"\1: {PAPER}", drawn)
    return re.sub(r"; font-family: 'DejaVu Sans', [^;\"]*", "", drawn)


def _named(drawn: str, name: str) -> str:
    """Make ids unique on the page: a pattern that a folded figure defines draws nothing."""
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", drawn)


def described(figure: Figure) -> str:
    """Describe a figure by its own words: titles, axes, and where its lines start and end."""
    parts = [figure.get_suptitle()] if figure.get_suptitle() else []
    for axes in figure.axes:
        parts += [title for side in ("left", "center") if (title := axes.get_title(loc=side))]
        names = [name for name in (axes.get_ylabel(), axes.get_xlabel()) if name]
        parts += [" over ".join(names)] if names else []
        for line in axes.get_lines():
            values: Any = line.get_ydata(orig=False)
            label = str(line.get_label())
            if len(values) and not label.startswith("_"):
                parts.append(f"{label}: from {values[0]:.3g} to {values[-1]:.3g}")
        bars = [str(bars.get_label()) for bars in axes.containers]
        parts += [bar for bar in bars if not bar.startswith("_")]
    return "Figure. " + "; ".join(dict.fromkeys(parts)) if parts else "Figure"


def show(close: bool | None = None, block: bool | None = None) -> None:
    """Show and close the figures that pyplot has; pyplot's `show` calls it."""
    from IPython.display import display
    from matplotlib._pylab_helpers import Gcf

    for manager in Gcf.get_all_fig_managers():
        figure = manager.canvas.figure
        display(Shown(getattr(figure, "alt", "") or described(figure), markup(figure)))
    Gcf.destroy_all()


def _at_the_end_of_cells() -> None:
    """Show the figures that a cell left open when it ends, as the inline backend does."""
    import sys

    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        shell.events.register("post_run_cell", lambda *_: show())


use()
_at_the_end_of_cells()
