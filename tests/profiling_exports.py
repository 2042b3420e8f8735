"""Exports of Nsight Systems and Nsight Compute made by hand, with shares that are known.

None was recorded on a GPU. The tables and columns are those of the SQLite schema reference.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

MS = 1_000_000
GEMM, SOFTMAX = "sm90_xmma_gemm_bf16", "softmax_warp_forward"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
FIRST, SECOND = 4001, 4002  # two processes
SCHEMA = """
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
        shortName INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
        correlationId INTEGER, nameId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
        globalTid INTEGER, textId INTEGER);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
"""
COPIES = """
    CREATE TABLE CUPTI_ACTIVITY_KIND_{kind} (start INTEGER, end INTEGER, deviceId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
"""


class NsysExport:
    """An export that is filled line by line, in milliseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path)
        self._db.executescript(SCHEMA)
        self._names: dict[str, int] = {}
        self._launches = 0

    def kernel(
        self, name: str, start: float, end: float, *, process: int = FIRST, device: int = 0,
        stream: int = 7, launched: float | None = None, thread: int = 1,
    ) -> None:  # fmt: skip
        self._launches += 1
        self._db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (start * MS, end * MS, device, stream, self._launches, process << 24,
             self._number(f"void {name}<float>"), self._number(name)),
        )  # fmt: skip
        at = start if launched is None else launched
        self._db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 0)",
            (at * MS, at * MS + 1000, (process << 24) + thread, self._launches),
        )

    def graph(self, start: float, end: float, *, launched: float, process: int = FIRST) -> None:
        """A launch of a CUDA graph that was traced as a whole."""
        self._launches += 1
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER,"
            " end INTEGER, deviceId INTEGER, graphId INTEGER, globalPid INTEGER,"
            " correlationId INTEGER, streamId INTEGER)"
        )
        self._db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, 0, 1, ?, ?, 7)",
            (start * MS, end * MS, process << 24, self._launches),
        )
        self._db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 0)",
            (launched * MS, launched * MS + 1000, (process << 24) + 1, self._launches),
        )

    def rename(self, table: str, new: str) -> None:
        if new != table:
            self._db.execute(f"ALTER TABLE {table} RENAME TO {new}")

    def copy(self, kind: str, start: float, end: float, *, process: int = FIRST) -> None:
        table = f"CUPTI_ACTIVITY_KIND_{kind}"
        if not self._db.execute(f"PRAGMA table_info({table})").fetchall():
            self._db.executescript(COPIES.format(kind=kind))
        self._db.execute(
            f"INSERT INTO {table} VALUES (?, ?, 0, 14, 0, ?, 4096)",
            (start * MS, end * MS, process << 24),
        )

    def range(
        self, name: str, start: float, end: float | None, *, process: int = FIRST,
        by_number: bool = False,
    ) -> None:  # fmt: skip
        self._db.execute(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)",
            (start * MS, None if end is None else end * MS, None if by_number else name,
             (process << 24) + 1, self._number(name) if by_number else None),
        )  # fmt: skip

    def gpu(self, device: int, name: str) -> None:
        self._db.execute("INSERT INTO TARGET_INFO_GPU VALUES (?, ?)", (device, name))

    def without(self, *tables: str) -> None:
        for table in tables:
            self._db.execute(f"DROP TABLE {table}")

    def _number(self, text: str) -> int:
        if text not in self._names:
            self._names[text] = 1000 + len(self._names)
            self._db.execute("INSERT INTO StringIds VALUES (?, ?)", (self._names[text], text))
        return self._names[text]

    def done(self) -> Path:
        self._db.commit()
        self._db.close()
        return self.path


def one_step(path: Path) -> NsysExport:
    """A step of 100 ms on one GPU: kernels 50 %, NCCL 30 % (20 % exposed), copies 10 %, idle 20 %.

    0–10 copy, 10–40 gemm (stream 7), 30–50 softmax (stream 8), 40–50 nccl beside it, 50–70 nccl
    alone, 85–95 a second gemm; the rest is empty.
    """
    made = NsysExport(path)
    made.gpu(0, "NVIDIA H100 80GB HBM3")
    made.range("step", 0, 100)
    made.range("forward", 5, 30, by_number=True)
    made.range("backward", 30, 80)
    made.copy("MEMCPY", 0, 8)
    made.copy("MEMSET", 8, 10)
    made.kernel(GEMM, 10, 40, launched=6)
    made.kernel(SOFTMAX, 30, 50, stream=8, launched=29)
    made.kernel(NCCL, 40, 70, stream=9, launched=35, thread=2)
    made.kernel(GEMM, 85, 95, launched=79, thread=2)
    return made


RAW = (
    "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC"
)


def raw_csv(path: Path, metrics: dict[str, str], rows: Iterable[tuple[str, list[str]]]) -> Path:
    """Write a raw page: metrics with their units; rows of a kernel's name and its values."""
    lines = ["==PROF== Connected to process 4001", "done: 20 steps, loss 2.1"]
    lines.append(_quoted([*RAW.split(","), *metrics]))
    lines.append(_quoted([""] * 11 + [*metrics.values()]))
    for number, (kernel, values) in enumerate(rows):
        start = [str(number), "4001", "python", "node1", kernel, "1", "7", "(256, 1, 1)"]
        lines.append(_quoted([*start, "(1024, 1, 1)", "0", "9.0", *values]))
    lines.append("==PROF== Disconnected from process 4001")
    path.write_text("\n".join(lines) + "\n")
    return path


def details_csv(path: Path, rows: Iterable[tuple[str, str, str, str, str]]) -> Path:
    """Write a details page: launch, kernel, metric, unit and value of each row."""
    head = [*RAW.split(","), "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    lines = [_quoted(head)]
    for number, kernel, metric, unit, value in rows:
        start = [number, "4001", "python", "node1", kernel, "1", "7", "(256, 1, 1)"]
        lines.append(_quoted([*start, "(64, 1, 1)", "0", "9.0", "a section", metric, unit, value]))
    path.write_text("\n".join(lines) + "\n")
    return path


def _quoted(cells: Iterable[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)
