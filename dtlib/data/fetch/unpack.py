"""Unpack an archive: only the files that are wanted, and nothing at all from a malicious one.

An archive's list of members is checked before anything is written: no absolute names, no `..`, no
links or devices, no more members and bytes than it can need. Each file is hashed on its way to the
disk, and gets its name from `sources`; the archive's own names are never used as paths, so that
tarfile's data filter would have nothing to do.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from dtlib.data.fetch.sources import File
from dtlib.errors import BadInput

BLOCK = 1 << 20
MEMBERS = 100  # more than any of our archives has
SPARE = 1 << 24  # bytes for members that we do not unpack: a readme, a list of names
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """What an archive says about one of its members."""

    name: str
    size: int
    is_file: bool
    is_folder: bool
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, files: Sequence[File], folder: Path) -> None:
    """Put `files`, found by name in any folder of a .tar.gz or .zip, into `folder`.

    The folder is created if necessary. Raises `BadInput` if a member would be written elsewhere or
    is a link or a device, if there is too much, if a file is missing or is a different one, or if
    the archive is damaged.
    """
    wanted = {file.name: file for file in files}
    most = sum(file.size for file in files) + SPARE
    folder.mkdir(parents=True, exist_ok=True)
    with _opened(archive, most) as members:
        _refuse_tricks(archive, members, most)
        for member in members:
            file = wanted.get(PurePosixPath(member.name).name)
            if member.is_file and file:
                _write(archive, member, file, folder / file.name)
                del wanted[file.name]
    if wanted:
        raise BadInput(
            f"{_name(archive)} does not contain {', '.join(wanted)}: it is another archive."
        )


def _refuse_tricks(archive: Path, members: Sequence[Member], most: int) -> None:
    for member in members:
        path = PurePosixPath(member.name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[:1]:
            trick = f"would write {member.name!r}, outside its folder"
        elif not (member.is_file or member.is_folder):
            trick = f"contains {member.name!r}, a link or a device"
        else:
            continue
        raise BadInput(
            f"{_name(archive)} {trick}: nothing was unpacked; get the archive from its publisher."
        )
    total = sum(member.size for member in members)
    if len(members) > MEMBERS or total > most:
        raise BadInput(
            f"{_name(archive)} would unpack to {len(members)} members and {total:,} bytes, more "
            f"than {MEMBERS} or {most:,}: nothing was unpacked."
        )


def _write(archive: Path, member: Member, file: File, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with member.open() as content, path.open("wb") as out:
        while block := content.read(BLOCK):
            size += len(block)
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != file.sha256:
        raise BadInput(
            f"{file.name} in {_name(archive)} is another file ({size:,} bytes, expected "
            f"{file.size:,}): its sha256 is {digest.hexdigest()}, expected {file.sha256}."
        )


@contextmanager
def _opened(archive: Path, most: int) -> Iterator[list[Member]]:
    """Open the archive and list its members; any damage is reported in one sentence."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield [_of_zip(zipped, info) for info in zipped.infolist()]
        else:
            with tarfile.open(archive, "r:*") as tar:
                yield list(_of_tar(tar, most))
    except DAMAGED as error:
        # tarfile lists every compression that it has tried, one per line.
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":. ")
        raise BadInput(f"{_name(archive)} is damaged or cut off: {reason}.") from error


def _name(archive: Path) -> str:
    return archive.name.removesuffix(".part")


def _of_tar(tar: tarfile.TarFile, most: int) -> Iterator[Member]:
    """List the members. Reaching one decompresses all before it, so stop at the limits."""
    total = 0
    for number, info in enumerate(tar):
        total += info.size
        yield Member(
            info.name,
            info.size,
            is_file=info.isreg() and not info.issparse(),
            is_folder=info.isdir(),
            open=functools.partial(_open, tar, info),
        )
        if number > MEMBERS or total > most:
            return


def _open(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(info)
    assert content is not None  # only called for files
    return content


def _of_zip(zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    kind = stat.S_IFMT(info.external_attr >> 16)
    return Member(
        info.filename,
        info.file_size,
        is_file=not info.is_dir() and kind in (0, stat.S_IFREG),
        is_folder=info.is_dir(),
        open=lambda: zipped.open(info),
    )
