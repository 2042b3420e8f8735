"""Make an export of Nsight Systems without a GPU, and read its spans back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from dtlib.measure.profiling.nsys import kind_of

# (stream, name, start, end) in nanoseconds; a copy has no name
Row = tuple[int, str, int, int]


def made_export(rows: Iterable[Row]) -> sqlite3.Connection:
    """Make a database with the tables of an export and these rows: not recorded on any GPU.

    Parameters
    ----------
    rows
        Kernels by their names, and copies with an empty name.

    Returns
    -------
    sqlite3.Connection
        In memory.
    """
    database = sqlite3.connect(":memory:")
    database.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
            (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
            (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, bytes INTEGER);
        """
    )
    names: dict[str, int] = {}
    for stream, name, start, end in rows:
        if not name:
            database.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, ?, ?)",
                (start, end, stream, 4 * (end - start)),
            )
            continue
        if name not in names:
            names[name] = 1000 + len(names)  # so that no id looks like a row's position
            database.execute("INSERT INTO StringIds VALUES (?, ?)", (names[name], name))
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?, ?)",
            (start, end, stream, names[name]),
        )
    return database


def spans_of(database: sqlite3.Connection) -> dict[str, list[tuple[float, float]]]:
    """The spans of "compute", "nccl" and "copy" in an export, in seconds."""
    kernels = database.execute(
        "SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON shortName = id"
    ).fetchall()
    copies = database.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchall()
    found: dict[str, list[tuple[float, float]]] = {"compute": [], "nccl": [], "copy": []}
    for name, start, end in kernels:
        found[kind_of(name)].append((start * 1e-9, end * 1e-9))
    found["copy"] += [(start * 1e-9, end * 1e-9) for start, end in copies]
    return found
