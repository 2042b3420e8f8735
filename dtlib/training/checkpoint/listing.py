"""List the checkpoints of a run, say what is wrong with each, and remove what does not count."""

from __future__ import annotations

from dtlib.errors import BadInput, counted
from dtlib.training.checkpoint.checkpoints import place_of, storage_at


def list_checkpoints(place: str, *, clean: bool = False) -> list[str]:
    """Return a line on each checkpoint and each leftover of an interrupted save.

    Parameters
    ----------
    place
        A run's folder, or the address of its checkpoints.
    clean
        Also remove what does not count: leftovers, and damaged checkpoints if there is a whole one.

    Raises
    ------
    BadInput
        There is neither a checkpoint nor a leftover.
    Unavailable
        The place can't be reached.
    """
    storage = storage_at(place_of(place))
    folders, lines, damaged, whole = storage.folders(), [], [], False
    for folder in folders:
        wrong = folder.what_is_wrong(read=True)
        if wrong is None:
            marker, note = folder.marker, "" if whole else "; resuming starts here"
            size = sum(told["bytes"] for told in marker.files.values())
            ranks = counted(marker.world_size, "rank")
            lines.append(f"{folder.name}: whole, {size:,} bytes of {ranks}{note}")
            whole = True
        else:
            damaged.append(folder.name)
            lines.append(f"{folder.name}: does not count, {wrong}")
    left = storage.leftovers()
    lines += [f"{one}: does not count, its save was interrupted" for one in left]
    if not lines:
        raise BadInput(
            f"{storage.where} holds no checkpoint; give the folder of a run, or s3://BUCKET/PREFIX."
        )
    if clean:
        goes = damaged if whole else []
        storage.clean()
        for name in goes:
            storage.remove(name)
        lines.append(f"removed: {len(left) + len(goes)}; kept: {len(folders) - len(goes)}")
    return lines
