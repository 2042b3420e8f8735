"""What the backend itself did, as torch's flight recorder has it.

It records one level below the dispatcher: on gloo a reduce-scatter is an all-reduce of whose result
only one part is kept, and point-to-point messages are not recorded at all.
"""

from __future__ import annotations

import json
import math
from typing import Any

from dtlib.measure.ledger.collectives import Tally
from dtlib.sim.collectives import ring_wire_bytes

SIZES = {
    "Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2,
    "Byte": 1, "Char": 1, "Bool": 1, "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip
"""Bytes of an element, by the recorder's names of types."""


def entries() -> list[dict[str, Any]] | None:
    """Return the recorder's entries, oldest first; None if it is off or does not exist.

    The launcher switches it on (`TORCH_FR_BUFFER_SIZE`). Under torch's DETAIL debug level it would
    show the checks instead of the calls.
    """
    try:
        import torch.distributed as dist
        from torch._C._distributed_c10d import _dump_fr_trace_json  # type: ignore[attr-defined]

        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            return None
        return json.loads(_dump_fr_trace_json()).get("entries")
    except Exception:  # a private interface, and only a second source
        return None


def last_record() -> int:
    """Return the number of the newest entry, below 0 if there is none."""
    return max((entry["record_id"] for entry in entries() or []), default=-1)


def tallies(after: int, ranks: int) -> dict[str, Tally] | None:
    """Tally what was recorded since entry number `after`; None without a recorder."""
    found = entries()
    if found is None:
        return None
    tallied: dict[str, Tally] = {}
    for entry in found:
        if entry["record_id"] <= after:
            continue
        name = entry["profiling_name"].rpartition(":")[2].lstrip("_")
        payload = 0 if name == "barrier" else _payload(entry)
        tallied.setdefault(name, Tally()).add(payload, ring_wire_bytes(name, payload, ranks))
    return tallied


def _payload(entry: dict[str, Any]) -> int:
    def size(side: str) -> int:
        shapes, types = entry[f"{side}_sizes"], entry[f"{side}_dtypes"]
        return sum(math.prod(s) * SIZES[t] for s, t in zip(shapes, types, strict=False))

    return max(size("input"), size("output"))
