"""Tables of measurements as text, for people."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], left: int = 1, last: bool = False) -> str:
    """Return rows as columns of text.

    Parameters
    ----------
    rows
        All of the same length; the header is a row like the others.
    left, last
        How many columns are aligned left, and whether the last one is too.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    end = len(widths) - last
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < left or at >= end else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
