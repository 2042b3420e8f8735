"""What stands in the logs of a run's folder: TensorBoard's events, and W&B's offline file.

W&B's file is a LevelDB log (https://github.com/google/leveldb/blob/main/doc/log_format.md) of
protocol buffers: what `wandb sync` would send.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

BLOCK, HEADER = 32768, 7  # bytes of a block, and of what stands before each piece of a record
WHOLE, LAST = 1, 4
Rows = dict[int, dict[str, float]]


def tensorboard_rows(folder: Path | str) -> Rows:
    """Return the scalars of a run's TensorBoard events, by step and name, in single precision.

    Raises
    ------
    ValueError
        If a name stands twice at one step.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(Path(folder) / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    rows: Rows = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            if tag in rows.setdefault(event.step, {}):
                raise ValueError(f"step {event.step} stands twice in {folder}.")
            rows[event.step][tag] = event.value
    return rows


def wandb_rows(folder: Path | str) -> Rows:
    """Return the history of a run's one offline W&B file, by step and name.

    Raises
    ------
    ValueError
        If there is not exactly one such file, or a step stands twice.
    """
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    (path,) = Path(folder).glob("wandb/offline-run-*/*.wandb")
    rows: Rows = {}
    for data in _leveldb_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") != "history":
            continue
        items = {
            item.key or item.nested_key[0]: json.loads(item.value_json)
            for item in record.history.item
        }
        step = items.pop("_step")
        if step in rows:
            raise ValueError(f"step {step} stands twice in {folder}.")
        rows[step] = {name: float(v) for name, v in items.items() if name[0] != "_"}
    return rows


def _leveldb_records(content: bytes) -> Iterator[bytes]:
    at, parts = HEADER, b""
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        at += HEADER
        parts += content[at : at + length]
        at += length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""
