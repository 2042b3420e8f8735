"""Put a data set into a folder: one process fetches it, the others check the result."""

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

GRACE = 30.0  # seconds within which the first rank of a node must have begun


def bring(source: Source, carried: Sequence[Path] = (), *, show: bool = True) -> tuple[Path, bool]:
    """Put a data set into the first folder of `dtlib.data.folders.roots`, unless one has it.

    Without files or folders that were `carried` here by hand, it is downloaded. Returns its folder,
    in which every file has the right hash, and whether this process has fetched it. Raises
    `BadInput` if the carried files, or those that a server sent, are wrong; `Unavailable` if there
    is no network, no space, no permission to write, or if another process never finishes.
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
            f"{source.name} cannot be put into {root} ({said}): free space there, or set "
            f"DTLIB_DATA to a folder of yours with {amount(_needed(source, source.files))} free."
        ) from error


def follow(source: Source) -> Path:
    """Wait until the first rank of this node has fetched a data set, and check only file sizes.

    Raises `Unavailable` if no process is fetching it, or the first rank gave up.
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
                f"the first rank of this node has not put {source.name} into {roots()[0]}: "
                "see that rank's error message."
            )
        time.sleep(0.2)


def _bring(
    source: Source, missing: Sequence[File], root: Path, carried: Sequence[Path], show: bool
) -> None:
    """Prepare the files beside their folder, then move them there in one step."""
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
        # A partial download is kept, to be resumed later; an empty folder is removed.
        if not any(path.stat().st_size for path in stage.rglob("*") if path.is_file()):
            shutil.rmtree(stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def _get(source: Source, file: File, part: Path, carried: Sequence[Path], show: bool) -> None:
    progress = Progress(file.name, file.size, show)
    try:
        if not carried:
            download(file, part, progress, by_hand(source))
            return
        origin = _find(file, carried)
        if len(source.downloads) == len(carried) == 1 and carried[0].is_file():
            origin = carried[0]  # a single file for a single download, whatever its name
        if origin is None:
            places = ", ".join(str(path) for path in carried)
            missing = "has no" if any(path.is_dir() for path in carried) else "is not"
            raise BadInput(f"{places} {missing} {file.name}: {by_hand(source)}.")
        carry(origin, file, part, progress, by_hand(source))
    finally:
        progress.close()


def _find(file: File, carried: Sequence[Path]) -> Path | None:
    """Find a carried file by its name, or by the last part of its address."""
    names = (file.name, *(url.rsplit("/", 1)[1] for url in file.urls))
    for path in carried:
        places = [path / name for name in names] if path.is_dir() else [path]
        for place in places:
            if place.name in names and place.is_file():
                return place
    return None


def by_hand(source: Source) -> str:
    """Return the end of a sentence that says how to get a data set without a network."""
    size, them, given = amount(source.size), "it", "FILE"
    what = source.downloads[0].urls[0]
    if len(source.downloads) > 1:
        names = ", ".join(file.name for file in source.downloads)
        what, them, given = f"what `dtlib fetch {source.name} --urls` lists", "them", "FOLDER"
        size = f"{names}; {size}"
    return (
        f"download {what} ({size}) on a machine with internet, copy {them} here, and run "
        f"`dtlib fetch {source.name} --from {given}`"
    )


def _install(ready: Path, target: Path) -> None:
    fsync_folder(ready)
    if target.exists():  # some of its files were damaged, or it has other files too
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
            f"{source.name} needs {amount(needed)}, but {stage.parent} has "
            f"{amount(free)} free: free more space, or set DTLIB_DATA to another folder."
        )


def _needed(source: Source, missing: Sequence[File]) -> int:
    """Bytes needed on the disk until everything is in its place."""
    unpacked = sum(file.size for file in missing)
    return unpacked + (source.archive.size if source.archive else 0)


def _stage(root: Path, source: Source) -> Path:
    return root / f".fetch-{source.name}"


def _lock(root: Path, source: Source) -> Path:
    return root / f".fetch-{source.name}.lock"


@contextlib.contextmanager
def _folder(root: Path) -> Iterator[None]:
    """Create the folder; if the block fails and left it empty, remove it again."""
    made = [path for path in (root, *root.parents) if not path.exists()]
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except (DtlibError, OSError, KeyboardInterrupt):
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
