"""Dumps of torch's flight recorder: the collectives that one rank began, in order.

Two forms are read: the pickle that torch writes (`TORCH_FR_DUMP_TEMP_FILE` on NCCL, `dtlib clinic
record` on every backend), which names lines, and torch's JSON, which names none.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from dtlib.measure.clinic.stacks import Frame, place
from dtlib.ranks.where import Where, sized

# A rank ends these only after every rank has begun them; in the others some may leave earlier.
_JOINT = re.compile(r"all_?reduce|all_?gather|barrier|reduce_?scatter|all_?to_?all")
_SAME_SIZE = re.compile(r"all_?reduce|broadcast|^reduce$")
_PEERS = re.compile(r"(\d+)\s*(?:->|<-)\s*(\d+)")


@dataclass(frozen=True)
class Call:
    """A collective, or a message, that a rank began; `began` in seconds since 1970.

    `number` counts the group's collectives from 1 (messages have a count of their own); `what` is
    the tensor in words, such as "4 float32"; `ended` is what the dump says, which is also true of
    a collective that failed.
    """

    group: str
    number: int
    name: str
    what: str
    ended: bool
    began: float
    where: Where
    peer: int | None = None

    @property
    def joint(self) -> bool:
        """Whether no rank can leave it before all have joined it."""
        return bool(_JOINT.search(self.name))

    @property
    def shape(self) -> tuple[str, str]:
        """What has to be equal on all ranks."""
        return self.name, self.what if _SAME_SIZE.search(self.name) else ""

    def __str__(self) -> str:
        tensor = f" of {self.what}" if self.what and "barrier" not in self.name else ""
        where = f" ({self.where.place})" if self.where.place else ""
        return f"{self.name}{tensor}{where}"


@dataclass(frozen=True)
class Dump:
    """A rank's calls, oldest first; `groups` has members where the dump is known to say them."""

    calls: tuple[Call, ...]
    groups: dict[str, tuple[int, ...]]


class _PlainOnly(pickle.Unpickler):
    """Reads dicts, lists, numbers and text; anything that would run code is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"it would run {module}.{name}, which no flight recorder writes")


def looks_like_pickle(raw: bytes) -> bool:
    """Return whether a file begins as torch's dumps do."""
    return raw[:1] == b"\x80" and len(raw) > 2 and raw[1] <= 5


def read_pickle(raw: bytes) -> Dump:
    """Read torch's own form of a dump; raises ValueError, KeyError or TypeError if it is none."""
    try:
        return _dump(_PlainOnly(io.BytesIO(raw)).load())
    except (pickle.UnpicklingError, EOFError, IndexError, AttributeError, MemoryError) as error:
        raise ValueError(f"its pickle ends or breaks ({error or type(error).__name__})") from None


def read_json(text: str) -> Dump:
    """Read the JSON form of a dump; raises as `read_pickle` does."""
    return _dump(json.loads(text))


def _dump(found: Any) -> Dump:
    if not isinstance(found, dict) or not isinstance(found.get("entries"), list):
        raise ValueError("it has no list `entries`")
    calls = tuple(_call(entry) for entry in found["entries"])
    names = {call.group for call in calls}
    groups = {
        name: tuple(json.loads(group["ranks"]))
        for name, group in (found.get("pg_config") or {}).items()
        if name in names and group.get("ranks")  # gloo writes all its groups under one empty name
    }
    return Dump(calls, groups)


def _call(entry: dict[str, Any]) -> Call:
    backend, _, name = entry["profiling_name"].rpartition(":")
    name, _, peers = name.partition(" ")
    on_nccl = backend == "nccl"
    frames = [Frame(f["filename"], int(f["line"]), f["name"]) for f in entry.get("frames") or []]
    message = bool(entry.get("is_p2p"))
    found = _PEERS.search(peers)
    return Call(
        group=str(entry["process_group"][0]),
        number=int(entry["p2p_seq_id" if message else "collective_seq_id"]),
        name=name.lstrip("_"),
        what=_tensor(entry),
        ended=entry["state"] == "completed" if on_nccl else bool(entry.get("retired")),
        began=float(entry["time_created_ns"]) * 1e-9,
        where=place(frames),
        peer=(int(found[2]) if found else -1) if message else None,
    )


def _tensor(entry: dict[str, Any]) -> str:
    sizes = entry.get("input_sizes") or entry.get("output_sizes")
    dtypes = entry.get("input_dtypes") or entry.get("output_dtypes")
    return sized(math.prod(sizes[0]), dtypes[0]) if sizes and dtypes else ""
