"""Put a data set into a folder: one process brings it, the others look whether it is right."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dtlib.config.files import fsync_folder
from dtlib.data.fetch.download import carry, download
from dtlib.data.fetch.locking import is_held, locked
from dtlib.data.fetch.progress import Progress, amount
from dtlib.data.fetch.sources import File, Source
from dtlib.data.fetch.unpack import unpack
from dtlib.data.fetch.verify import damaged
from dtlib.data.folders import roots
from dtlib.errors import BadInput, DtlibError, Unavailable

GRACE = 30.0  # seconds in which the first rank of a node must have begun


def bring(source: Source, carried: Sequence[Path] = (), *, show: bool = True) -> tuple[Path, bool]:
    """Bring a data set into the first folder of `dtlib.data.folders.roots`, unless it lies in one.

    Without files or folders that were `carried` here by hand it is downloaded. Returns where it
    lies, every file with the right hash, and whether this process has brought it. Raises `BadInput`
    if what was carried here, or what a server sent, is not the right thing; `Unavailable` if there
    is no network, no room, no right to write, or no end to another process's work.
    """
    for root in roots():
        if not damaged(source.files, root / source.folder):
            return root / source.folder, False
    root = roots()[0]
    try:
        with _folder(root), locked(_lock(root, source), _stage(root, source), show=show):
            target = root / source.folder
            missing = damaged(source.files, target)
            if missing:
                _bring(source, missing, root, carried, show)
            return target, bool(missing)
    except OSError as error:
        forbidden = isinstance(error, PermissionError)
        if forbidden and not str(error.filename).startswith(str(root)):
            raise  # a file that was carried here
        said = error.strerror or str(error)
        raise (BadInput if forbidden else Unavailable)(
            f"{source.name} cannot be put into {root} ({said}): make room there, or set DTLIB_DATA "
            f"to a folder of yours with {amount(_needed(source, source.files))} to spare."
        ) from error


def follow(source: Source) -> Path:
    """Wait until the first rank of this node has brought a data set, and look at sizes alone.

    Raises `Unavailable` if nobody is at it, or it was given up.
    """
    since = time.monotonic()
    while True:
        for root in roots():
            if not damaged(source.files, root / source.folder, hashes=False):
                return root / source.folder
        lock = _lock(roots()[0], source)
        if is_held(lock):
            since = time.monotonic()
        elif time.monotonic() - since > GRACE:
            raise Unavailable(
                f"the first rank of this node has not brought {source.name} into {roots()[0]}: "
                "read what it says."
            )
        time.sleep(0.2)


def _bring(
    source: Source, missing: Sequence[File], root: Path, carried: Sequence[Path], show: bool
) -> None:
    """Make the files ready beside their folder, then move them there in one step."""
    stage, target = _stage(root, source), root / source.folder
    ready = stage / "ready"
    ready.mkdir(parents=True, exist_ok=True)
    try:
        _refuse_if_full(source, missing, stage)
        if source.archive and not all(_find(file, carried) for file in missing):
            part = stage / f"{source.archive.name}.part"
            _get(source, source.archive, part, carried, show)
            unpack(part, missing, ready)
        else:
            for file in damaged(missing, ready):
                part = stage / f"{file.name}.part"
                _get(source, file, part, carried, show)
                part.replace(ready / file.name)
        _install(ready, target)
    except BadInput:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    except BaseException:
        # An interrupted download is resumed; an empty one is started afresh.
        if not any(path.stat().st_size for path in stage.rglob("*") if path.is_file()):
            shutil.rmtree(stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def _get(source: Source, file: File, part: Path, carried: Sequence[Path], show: bool) -> None:
    progress = Progress(file.name, file.size, show)
    try:
        if not carried:
            download(file, part, progress, _by_hand(source))
            return
        origin = _find(file, carried)
        if len(source.downloads) == len(carried) == 1 and carried[0].is_file():
            origin = carried[0]  # a single file for a single download, whatever its name
        if origin is None:
            places = ", ".join(str(path) for path in carried)
            raise BadInput(
                f"{places} has no {file.name}: give the folder that holds "
                f"{', '.join(file.name for file in source.downloads)}."
            )
        carry(origin, file, part, progress)
    finally:
        progress.close()


def _find(file: File, carried: Sequence[Path]) -> Path | None:
    """Where a carried file of that name lies; the last part of its address is a name, too."""
    names = (file.name, *(url.rsplit("/", 1)[1] for url in file.urls))
    for path in carried:
        places = [path / name for name in names] if path.is_dir() else [path]
        for place in places:
            if place.name in names and place.is_file():
                return place
    return None


def _by_hand(source: Source) -> str:
    if len(source.downloads) == 1:
        what, them, given = source.downloads[0].urls[0], "it", "FILE"
    else:
        what, them, given = f"what `dtlib fetch {source.name} --urls` lists", "them", "FOLDER"
    return (
        f"download {what} where there is internet, carry {them} here, and run "
        f"`dtlib fetch {source.name} --from {given}`"
    )


def _install(ready: Path, target: Path) -> None:
    fsync_folder(ready)
    if target.exists():  # some files of it were damaged, or there are others beside them
        for path in ready.iterdir():
            path.replace(target / path.name)
        fsync_folder(target)
    else:
        ready.rename(target)
    fsync_folder(target.parent)


def _refuse_if_full(source: Source, missing: Sequence[File], stage: Path) -> None:
    free = shutil.disk_usage(stage).free
    here = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file())
    needed = _needed(source, missing)
    if free + here < needed:
        raise Unavailable(
            f"{source.name} needs {amount(needed)} and {stage.parent} has "
            f"{amount(free)} free: make room, or set DTLIB_DATA to another folder."
        )


def _needed(source: Source, missing: Sequence[File]) -> int:
    """Bytes on the disk until all is in its place."""
    unpacked = sum(file.size for file in missing)
    return unpacked + (source.archive.size if source.archive else 0)


def _stage(root: Path, source: Source) -> Path:
    return root / f".fetch-{source.name}"


def _lock(root: Path, source: Source) -> Path:
    return root / f".fetch-{source.name}.lock"


@contextlib.contextmanager
def _folder(root: Path) -> Iterator[None]:
    """Make the folder; take away again what was made, if nothing was put into it."""
    made = [path for path in (root, *root.parents) if not path.exists()]
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except (DtlibError, OSError, KeyboardInterrupt):
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
