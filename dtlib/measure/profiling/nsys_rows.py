"""The tables of an export of Nsight Systems as rows.

A row of CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY or _MEMSET has `start` and `end` in nanoseconds; a
kernel's `shortName` is a number that StringIds turns into text. A table exists only if something
was written to it, and columns were added over the years, so any table or column may be missing.
https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite schema reference)
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

KERNELS, COPIES = "CUPTI_ACTIVITY_KIND_KERNEL", ("MEMCPY", "MEMSET")
# One row for each launch of a CUDA graph, in place of its kernels (--cuda-graph-trace=graph)
GRAPHS, GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA graph, whose kernels are not told apart"
LAUNCHES, RANGES, GPUS = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "TARGET_INFO_GPU"

# Tables of events that are not GPU work
_OTHER = ("SYNCHRONIZATION", "CUDA_EVENT", "OVERHEAD", "DRIVER")
_TIMES = ("CUPTI_ACTIVITY_KIND_", RANGES)


class Activity(NamedTuple):
    """A kernel, or a copy (whose name is empty), in nanoseconds."""

    process: int
    device: int
    name: str
    start: int
    end: int
    correlation: int


def activities_of(database: sqlite3.Connection) -> list[Activity]:
    """All kernels and copies of an export."""
    found = []
    there = _columns(database, KERNELS)
    if there:
        name = "shortName" if "shortName" in there else "demangledName"
        query = f"SELECT {_fields(there)}, value FROM {KERNELS} LEFT JOIN StringIds ON {name} = id"
        for process, device, start, end, correlation, text in _rows(database, query):
            named = text or "unknown kernel"
            found.append(Activity(_number(process), device, named, start, end, correlation))
    there = _columns(database, GRAPHS)
    if there:
        for process, device, start, end, correlation in _rows(
            database, f"SELECT {_fields(there)} FROM {GRAPHS}"
        ):
            found.append(Activity(_number(process), device, GRAPH, start, end, correlation))
    for kind in COPIES:
        table = f"CUPTI_ACTIVITY_KIND_{kind}"
        there = _columns(database, table)
        for process, device, start, end, correlation in (
            _rows(database, f"SELECT {_fields(there)} FROM {table}") if there else ()
        ):
            found.append(Activity(_number(process), device, "", start, end, correlation))
    return found


def unknown_tables(database: sqlite3.Connection) -> list[str]:
    """Names of the tables with times that nothing here reads, such as a later version's."""
    known = {KERNELS, GRAPHS, LAUNCHES, RANGES}
    known |= {f"CUPTI_ACTIVITY_KIND_{kind}" for kind in (*COPIES, *_OTHER)}
    tables = _rows(database, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in tables if name.startswith(_TIMES) and name not in known]


def has_texts(database: sqlite3.Connection) -> bool:
    """Return whether the table of texts exists, which every export has."""
    return bool(_columns(database, "StringIds"))


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty if it does not exist."""
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def _fields(there: set[str]) -> str:
    wanted = ("globalPid", "deviceId", "start", "end", "correlationId")
    return ", ".join(f'"{name}"' if name in there else "0" for name in wanted)


def _rows(database: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    return database.execute(query).fetchall()


def _number(identifier: int | None) -> int:
    """The process in a globalPid or globalTid; 24 bits each for machine, process and thread."""
    return (identifier or 0) // 0x1000000 % 0x1000000


# process → name → spans of its ranges
Named = Mapping[int, Mapping[str, list[tuple[float, float]]]]


def ranges_of(database: sqlite3.Connection) -> Named:
    """All NVTX ranges that were closed."""
    found: dict[int, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    there = _columns(database, RANGES)
    if not there:
        return found
    by_number = "textId" in there and _columns(database, "StringIds")
    text = "COALESCE(text, value)" if by_number else "text"
    join = "LEFT JOIN StringIds ON textId = StringIds.id" if by_number else ""
    process = "globalTid" if "globalTid" in there else "0"
    query = f'SELECT {process}, {text}, start, "end" FROM {RANGES} {join}'
    for thread, name, start, end in _rows(database, query):
        if name and end is not None and end > start:  # a mark, or a range that was left open
            found[_number(thread)][name].append((start, end))
    return found


def gpu_names(database: sqlite3.Connection) -> dict[int, str]:
    """Device → its name, if the export has it."""
    if not {"id", "name"} <= _columns(database, GPUS):
        return {}
    return dict(_rows(database, f"SELECT id, name FROM {GPUS}"))


def launches_of(
    database: sqlite3.Connection, activities: list[Activity]
) -> dict[int, list[tuple[int, Activity]]]:
    """Process → (when it was launched, kernel), in order; of any thread of the process.

    Backward launches its kernels from autograd's own thread while the loop's thread waits in it.
    """
    if not {"correlationId", "globalTid"} <= _columns(database, LAUNCHES):
        return {}
    query = f"SELECT globalTid, correlationId, start FROM {LAUNCHES}"
    starts = {(_number(thread), number): at for thread, number, at in _rows(database, query)}
    found: dict[int, list[tuple[int, Activity]]] = defaultdict(list)
    for one in activities:
        at = starts.get((one.process, one.correlation))
        if at is not None and one.name:
            found[one.process].append((at, one))
    return {process: sorted(some) for process, some in found.items()}


def kind_of(name: str) -> str:
    """The kind of a row of an export: "nccl", another kernel ("compute"), or, unnamed, a "copy"."""
    nccl = re.match(r"(void )?nccl", name, re.IGNORECASE)  # a kernel may pack data for NCCL
    return "copy" if not name else "nccl" if nccl else "compute"
