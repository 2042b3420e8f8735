"""Dumps of torch's flight recorder: the collectives that one rank began, in order.

Two forms are read: the pickle that torch writes (`TORCH_FR_DUMP_TEMP_FILE` on NCCL, `dtlib clinic
record` on every backend), which names lines, and torch's JSON, which names none.

gloo never says that a collective is completed, only that it is retired, and lists no members of
its groups. NCCL says both. Three things are NCCL's alone: its own names of some collectives;
messages between ranks that are counted within their group; and batches (`batch_isend_irecv`), of
which only the last entry, `coalesced`, is ever completed. torch/distributed/flight_recorder reads
them in the same way.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from dtlib.measure.clinic.findings import listed
from dtlib.measure.clinic.stacks import Frame, place
from dtlib.ranks.where import Where, sized

# A rank ends these only after every rank has begun them; in the others some may leave earlier.
_JOINT = re.compile(r"all_?reduce|all_?gather|barrier|reduce_?scatter|all_?to_?all")
_BATCH = "coalesced"
# NCCL's names of what torch.distributed calls differently
_CALLED = {
    "all_reduce_barrier": "barrier",
    "all_gather_base": "all_gather_into_tensor",
    "reduce_scatter_base": "reduce_scatter_tensor",
}
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
    tag: int | None = None  # of a message, where it is known
    backend: str = ""  # where it is known

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


_BROKEN = (
    pickle.UnpicklingError, EOFError, IndexError, AttributeError, MemoryError, OverflowError
)  # fmt: skip


class _PlainOnly(pickle.Unpickler):
    """Reads dicts, lists, numbers and text; anything that would run code is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"it would run {module}.{name}, which no flight recorder writes")


def looks_like_pickle(raw: bytes) -> bool:
    """Return whether a file begins as torch's dumps do."""
    return raw[:1] == b"\x80" and len(raw) > 2 and raw[1] <= 5


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as torch's dumps do; without a collective it has no entries."""
    return text.lstrip().startswith("{") and ('"entries"' in text or '"pg_config"' in text)


def read_pickle(raw: bytes) -> Dump:
    """Read torch's own form of a dump; raises ValueError, KeyError or TypeError if it is none."""
    try:
        return _dump(_PlainOnly(io.BytesIO(raw)).load())
    except _BROKEN as error:
        raise ValueError(f"its pickle ends or breaks ({error or type(error).__name__})") from None


def read_json(text: str) -> Dump:
    """Read the JSON form of a dump; raises as `read_pickle` does."""
    return _dump(json.loads(text))


def _dump(found: Any) -> Dump:
    if not isinstance(found, dict) or not {"entries", "pg_config"} & found.keys():
        raise ValueError("it has neither a list `entries` nor `pg_config`")
    members = {
        name: tuple(json.loads(group["ranks"]))
        for name, group in (found.get("pg_config") or {}).items()
        if name and group.get("ranks")  # gloo writes all its groups under one empty name
    }
    calls = [_call(entry, members) for entry in found.get("entries") or []]
    groups = {_group(name, members): ranks for name, ranks in members.items()}
    return Dump(tuple(_batched(calls)), groups)


def _group(name: str, members: dict[str, tuple[int, ...]]) -> str:
    """Name a group by its members too, because groups that torch split off may share a name."""
    if name == "0" or name not in members:
        return name
    return f"{name} of {listed(members[name])}"


def _batched(calls: list[Call]) -> Iterator[Call]:
    """Yield the calls; those of a batch have ended when its last entry has, which is left out.

    Of a batch of collectives, which have a number in common, that last entry alone is kept.
    """
    ends = {(c.group, c.number, c.peer is None): c for c in calls if c.name.endswith(_BATCH)}
    for call in calls:
        end = ends.get((call.group, call.number, call.peer is None))
        if end is None or (end is call and call.peer is None):
            yield call
        elif end is not call and call.peer is not None:
            yield replace(call, ended=end.ended)


def _call(entry: dict[str, Any], members: dict[str, tuple[int, ...]]) -> Call:
    backend, _, name = entry["profiling_name"].rpartition(":")
    name, _, peers = name.partition(" ")
    frames = [Frame(f["filename"], int(f["line"]), f["name"]) for f in entry.get("frames") or []]
    message, group = bool(entry.get("is_p2p")), str(entry["process_group"][0])
    name = name.lower().lstrip("_")
    return Call(
        group=_group(group, members),
        number=int(entry["p2p_seq_id" if message else "collective_seq_id"]),
        name=_CALLED.get(name, name),
        what=_tensor(entry),
        ended=bool(entry.get("retired")) if backend == "gloo" else entry["state"] == "completed",
        began=float(entry["time_created_ns"]) * 1e-9,
        where=place(frames),
        peer=_peer(peers, members.get(group)) if message else None,
        backend=backend,
    )


def _peer(peers: str, members: tuple[int, ...] | None) -> int:
    """Return the global rank at the other end of a message ("0->1" or "1<-0", ranks of a group)."""
    found = _PEERS.search(peers)
    if found is None:
        return -1  # the entry that ends a batch
    return members[int(found[2])] if members else int(found[2])


def _tensor(entry: dict[str, Any]) -> str:
    sizes = entry.get("input_sizes") or entry.get("output_sizes")
    dtypes = entry.get("input_dtypes") or entry.get("output_dtypes")
    return sized(math.prod(sizes[0]), dtypes[0]) if sizes and dtypes else ""
