"""Readable results of a study: text tables, a figure, and its description in words."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.config.files import write_atomically
from dtlib.config.values import HF
from dtlib.measure.columns import aligned
from dtlib.sim import memory
from dtlib.study.differences import COLLECTIVES
from dtlib.study.rows import HELD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each kind of bytes has a colour (from Okabe and Ito's colour-blind-safe palette) and a hatch.
LOOK = {
    "parameters": ("#0072B2", ""), "gradients": ("#E69F00", "//"), "optimizer": ("#009E73", ".."),
    "fp32_copy": ("#CC79A7", "xx"), "activations": ("#BBBBBB", "--"),
}  # fmt: skip
Row = Mapping[str, Any]


def table(rows: Sequence[Row]) -> str:
    """Return losses, times, bytes held and bytes sent as text, one line per run."""
    head = ["strategy", "ranks", "loss", "- single", "ms/step"]
    head += [_spaced(kind) for kind in HELD] + ["sent", "on a ring"]
    lines = [head, *(_line(row) for row in rows if row["status"] == "done")]
    found = [
        "Held by rank 0 and sent in one step, in MB (10^6 bytes). Gradients: just before the",
        "update; activations: their peak; all others: between steps. Ring bytes: from the payload.",
        aligned(lines, left=1),
    ]
    found += without_formula(rows)
    found += [
        f"{named(row)} on {row['world_size']}: {row['status']}: {row['because']}"
        for row in rows
        if row["status"] != "done"
    ]
    return "\n".join(found)


def named(row: Row) -> str:
    """Return the strategy of a row, with its mesh if it was given one."""
    return " ".join(filter(None, [row["strategy"], row.get("mesh")]))


def without_formula(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each strategy, or model, that ran without a formula for it."""
    done = [row for row in rows if row["status"] == "done"]
    names = dict.fromkeys(row["strategy"] for row in done)
    models = dict.fromkeys(row["model"] for row in done if row["model"].startswith(HF))
    return [
        f"A study has no formula for the model {model}, so what it predicts is left blank."
        for model in models
    ] + [
        f"sim has no formula for strategy {name}, so what it predicts is left blank."
        for name in names
        if not memory.knows(name)
    ]


def _line(row: Row) -> list[str]:
    difference, seconds = row["loss_minus_single"], row["step_time_s"]
    sent = sum(row[f"{name}_payload_bytes"] or 0 for name in COLLECTIVES)
    return [
        named(row),
        str(row["world_size"]),
        f"{row['loss']:.6f}",
        "" if difference is None else f"{difference:+.1e}",
        "" if seconds is None else f"{seconds * 1e3:.0f}",
        *(_megabytes(row[f"{kind}_bytes"]) for kind in HELD),
        _megabytes(sent),
        _megabytes(row["wire_bytes_derived"]),
    ]


def comparison(rows: Sequence[Row], rank: int = 0) -> str:
    """Compare predicted and measured bytes of a rank as text, a line per row of `differences`."""
    lines = [["strategy", "ranks", "what", "predicted", "measured", "difference", "because"]]
    before: tuple[Any, ...] = ()
    for row in rows:
        if row["rank"] != rank or not (row["predicted_bytes"] or row["measured_bytes"]):
            continue
        place = (named(row), row["world_size"], row["what"])
        again, numbers = place == before, (row["predicted_bytes"], row["measured_bytes"])
        before = place
        lines.append([
            *(str(word) for word in place),
            *("" if again else f"{number:,}" for number in numbers),
            f"{row['difference_bytes']:+,}" if row["difference_bytes"] else "",
            row["because"],
        ])  # fmt: skip
    return aligned(lines, left=1, last=True)


def figure(rows: Sequence[Row]) -> Figure:
    """Return bars of the bytes that a rank holds, by kind; outlines show the formula's values."""
    from matplotlib.figure import Figure

    done = [row for row in rows if row["status"] == "done"]
    drawn = Figure(figsize=(9, 1.5 + 0.3 * len(done)), layout="constrained")
    axes = drawn.add_subplot()
    for place, row in enumerate(done):
        measured = predicted = 0.0
        for kind, (colour, hatch) in LOOK.items():
            size, formula = (row[f"{p}{kind}_bytes"] or 0 for p in ("", "predicted_"))
            look: Any = {"color": colour, "hatch": hatch, "edgecolor": "white"}
            axes.barh(place, size / 1e6, left=measured / 1e6, height=0.55, **look)
            outline: Any = {"fill": False, "edgecolor": "black", "linewidth": 0.8}
            axes.barh(place, formula / 1e6, left=predicted / 1e6, height=0.8, **outline)
            measured, predicted = measured + size, predicted + formula
    names = [f"{named(row)}, {row['world_size']}" for row in done]
    axes.set_yticks(range(len(done)), names)
    axes.set_ylim(len(done) - 0.4, -0.6)
    axes.set_xlabel("MB held by rank 0 (1 MB = 10⁶ bytes); outlines: predicted")
    axes.set_ylabel("strategy, ranks")
    handles = [
        axes.barh(0, 0, color=colour, hatch=hatch, edgecolor="white", label=_spaced(kind))
        for kind, (colour, hatch) in LOOK.items()
    ]
    drawn.legend(handles=handles, loc="outside upper center", ncols=len(LOOK))
    return drawn


def alt_text(rows: Sequence[Row]) -> str:
    """Describe the figure in words, for readers who can't see it."""
    parts = []
    for row in rows:
        if row["status"] == "done":
            sizes = [f"{_spaced(kind)} {_megabytes(row[f'{kind}_bytes'])}" for kind in HELD]
            parts.append(f"{named(row)} on {row['world_size']}: {', '.join(sizes)}")
    return "Bars of MB held by rank 0, measured. " + "; ".join(parts) + "."


def save_figure(rows: Sequence[Row], path: Path, judged: Sequence[str] = ()) -> str:
    """Write the figure of `rows.tidy` (see `save`) and its table next to it; return the table.

    The sentences about targets, `judged`, follow below the table.
    """
    text = "\n".join([table(rows), *judged])
    save(figure(rows), path, alt_text(rows), text)
    return text


def save(drawn: Figure, path: Path, words: str, text: str = "") -> None:
    """Write a figure as PNG with its description inside, and the text to a file next to it."""
    if text:
        write_atomically(path.with_suffix(".txt"), text + "\n")
    picture = io.BytesIO()
    drawn.savefig(picture, format="png", dpi=150, metadata={"Description": words})
    write_atomically(path, picture.getvalue())


def _spaced(kind: str) -> str:
    return kind.replace("_", " ")


def _megabytes(size: float | None) -> str:
    return "" if size is None else f"{size / 1e6:.3f}"
