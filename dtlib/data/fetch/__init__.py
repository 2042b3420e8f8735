"""Fetch data sets and checkpoints from their publishers, or from files copied here by hand.

Every file is checked against a hash that is recorded in `sources`. An interrupted download is
resumed; one process per folder downloads, and the others check the result. Importing this needs
neither torch nor a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtlib.data.fetch.place import bring, by_hand, follow
from dtlib.data.fetch.progress import amount
from dtlib.data.fetch.sources import SOURCES, Source
from dtlib.data.fetch.verify import damaged
from dtlib.data.folders import roots
from dtlib.errors import BadInput, refuse_unknown
from dtlib.ranks.environment import environment_world

__all__ = ["SOURCES", "addresses", "get", "listing", "places", "resolve"]


def get(names: Sequence[str], carried: Sequence[str | Path] = ()) -> None:
    """Fetch data sets, and print where they are.

    `names` are keys of `SOURCES`; `carried` are files or folders copied by hand to a machine with
    no internet. Raises `BadInput` if a name is unknown, a carried file does not exist, or a file is
    the wrong one; `Unavailable` if there is no network, no space, or no permission to write.
    """
    wanted = [resolve(name) for name in names]
    if carried and len(wanted) != 1:
        raise BadInput(
            f"--from belongs to one name, but there are {len(wanted)}: fetch them one by one."
        )
    paths = [Path(path).expanduser() for path in carried]
    for path in paths:
        if not path.exists():
            raise BadInput(
                f"there is no {path} to get {names[0]} from: check the path, or"
                f" {by_hand(wanted[0])}."
            )
    there = environment_world()
    for source in wanted:
        if there and there.local_rank > 0:
            follow(source)
            continue
        show = there is None or there.rank == 0
        if show and not paths:
            print(f"{source.name}: {source.what}", flush=True)
        folder, new = bring(source, paths, show=show)
        if show:
            print(f"{source.name}: {'now' if new else 'already'} in {folder}, verified", flush=True)
            if new:
                print(f"  licence: {source.licence}\n  cite: {source.cite}", flush=True)


def resolve(name: str) -> Source:
    """Return the source called `name`.

    Raises `BadInput` if there is none; the message suggests the nearest name.
    """
    refuse_unknown("data set or checkpoint", name, SOURCES)
    return SOURCES[name]


def places() -> list[tuple[Source, Path | None]]:
    """Return each source and the folder that it is in (judged by file sizes), or None."""
    found = []
    for source in SOURCES.values():
        folders = (root / source.folder for root in roots())
        whole = (f for f in folders if not damaged(source.files, f, hashes=False))
        found.append((source, next(whole, None)))
    return found


def listing() -> str:
    """List what can be fetched, how large it is, and whether it is here (judged by file sizes)."""
    width = max(map(len, SOURCES))
    lines = []
    for source, here in places():
        state = f"in {here}" if here else "not here"
        lines.append(f"{source.name:<{width}}  {amount(source.size):>7}  {source.what}; {state}")
    lines.append(f"\n`dtlib fetch NAME` puts it into {roots()[0]} (set DTLIB_DATA to change that);")
    lines.append("`dtlib fetch NAME --from FILE` takes it from a file that you copied here.")
    return "\n".join(lines)


def addresses(name: str) -> str:
    """List what to download by hand: each file's address, and its size and hash to check."""
    lines = []
    for file in resolve(name).downloads:
        about = "" if file.exact else "about "
        lines += [file.urls[0], f"  # {about}{file.size:,} bytes, sha256 {file.sha256}"]
    return "\n".join(lines)
