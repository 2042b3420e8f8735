"""Archives that are cut off, lie, or try to write elsewhere: one sentence, and nothing is left."""

import hashlib
import io
import random
import tarfile
import zipfile
from collections.abc import Callable

import pytest

from dtlib import cli
from dtlib.data import fetch
from dtlib.data.fetch.sources import File, Source
from dtlib.data.fetch.unpack import MEMBERS, SPARE, unpack
from dtlib.errors import BadInput

GOOD = {"a.bin": random.Random(2).randbytes(50_000), "b.bin": b"b" * 10}
FILES = tuple(
    File(name, hashlib.sha256(content).hexdigest(), len(content)) for name, content in GOOD.items()
)
OTHER = {"a.bin": GOOD["a.bin"], "b.bin": b"c" * 10}
LINK, FIFO, HARD = tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE


def tar(members: dict[str, bytes], special: dict[str, bytes] | None = None) -> bytes:
    """A .tar.gz; `special` has the types of members that are no files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, kind in (special or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../../x"
            archive.addfile(info)
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return content.getvalue()


def zipped(members: dict[str, bytes], link: str | None = None) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "../../x")
    return content.getvalue()


def inside(members: dict[str, bytes]) -> dict[str, bytes]:
    return {f"folder/{name}": content for name, content in members.items()}


def endless() -> bytes:
    """A tar whose header promises far more than it has."""
    info = tarfile.TarInfo("folder/huge")
    info.size = 1 << 40
    return info.tobuf() + bytes(1024)


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "up": (lambda: tar({"../x": b"!", **inside(GOOD)}), "would write '../x', outside its folder"),
    "up in the middle": (lambda: tar({"folder/../../x": b"!"}), "outside its folder"),
    "absolute": (lambda: tar({"/tmp/x": b"!", **GOOD}), "would write '/tmp/x'"),
    "link": (lambda: tar(GOOD, {"folder/l": LINK}), "'folder/l', a link or a device"),
    "link by a wanted name": (lambda: tar({"a.bin": b"!"}, {"a.bin": LINK}), "'a.bin', a link"),
    "hard link": (lambda: tar(GOOD, {"h": HARD}), "'h', a link or a device"),
    "pipe": (lambda: tar(GOOD, {"p": FIFO}), "'p', a link or a device"),
    "zip up": (lambda: zipped({"../x": b"!", **GOOD}), "would write '../x'"),
    "zip of Windows": (lambda: zipped({"..\\x": b"!", **GOOD}), "outside its folder"),
    "zip link": (lambda: zipped(GOOD, "l"), "'l', a link or a device"),
    "too many": (
        lambda: tar({f"{n}": b"" for n in range(MEMBERS + 1)}),
        f"unpack to {MEMBERS + 1} members",
    ),
    "too large": (lambda: tar({"zeros": bytes(SPARE + 100_000)}), f"{SPARE + 100_000:,} bytes"),
    "zip too large": (lambda: zipped({"zeros": bytes(SPARE + 100_000)}), "nothing was unpacked"),
    "promises too much": (endless, f"{1 << 40:,} bytes"),
    "cut off": (lambda: tar(inside(GOOD))[:-20_000], "damaged or cut off"),
    "zip cut off": (lambda: zipped(inside(GOOD))[:-20_000], "damaged or cut off"),
    "no archive": (lambda: b"<html>", "damaged or cut off"),
    "empty": (lambda: b"", "damaged or cut off"),
    "a file is missing": (lambda: tar({"a.bin": GOOD["a.bin"]}), "does not contain b.bin"),
    "a file is another": (
        lambda: tar(inside(OTHER)),
        f"b.bin in archive is another file (10 bytes, expected 10): its sha256 is "
        f"{hashlib.sha256(OTHER['b.bin']).hexdigest()}, expected {FILES[1].sha256}",
    ),
    "zip with another": (lambda: zipped(inside(OTHER)), "b.bin in archive is another file"),
}


pytestmark = pytest.mark.usefixtures("root")


def offer(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let `dtlib fetch toy` want an archive of just this content."""
    digest = hashlib.sha256(content).hexdigest()
    archive = File("archive", digest, len(content), ("http://x.invalid/archive",), exact=False)
    source = Source("toy", "a toy", "toy", FILES, "free", "Nobody", archive)
    monkeypatch.setattr(fetch, "SOURCES", {"toy": source})


@pytest.mark.parametrize("name", CASES)
def test_an_archive_with_the_right_hash_that_plays_tricks(
    name, root, tmp_path, monkeypatch, capsys
):
    """Even a table that names a bad archive does no harm."""
    make, words = CASES[name]
    content = make()
    (tmp_path / "archive").write_bytes(content)
    offer(monkeypatch, content)
    before = sorted(tmp_path.parent.rglob("*"))
    code = cli.main(["fetch", "toy", "--from", "archive"])
    said = capsys.readouterr().err
    assert code == 2, said
    assert said.count("\n") == 1 and "Traceback" not in said
    assert words in said
    assert sorted(tmp_path.parent.rglob("*")) == before, "nothing is left behind, here or outside"


@pytest.mark.parametrize("cut", [1, 100, 30_000])
def test_a_truncated_archive_is_refused_by_its_hash(cut, root, tmp_path, monkeypatch, capsys):
    whole = tar(inside(GOOD))
    offer(monkeypatch, whole)
    (tmp_path / "archive").write_bytes(whole[:-cut])
    assert cli.main(["fetch", "toy", "--from", "archive"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for digest in (hashlib.sha256(whole[:-cut]).hexdigest(), hashlib.sha256(whole).hexdigest()):
        assert digest in said
    assert not root.exists()
    (tmp_path / "archive").write_bytes(whole)
    assert cli.main(["fetch", "toy", "--from", "archive"]) == 0
    assert {path.name: path.read_bytes() for path in (root / "toy").iterdir()} == GOOD


@pytest.mark.parametrize("pack", [tar, zipped])
def test_only_what_is_wanted_is_unpacked(pack, tmp_path):
    (tmp_path / "archive").write_bytes(pack({**inside(GOOD), "folder/readme.html": b"hello"}))
    unpack(tmp_path / "archive", FILES, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == GOOD
    unpack(tmp_path / "archive", FILES[1:], tmp_path / "one")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["b.bin"]


def test_a_zip_that_unpacks_to_more_than_it_says_is_stopped(tmp_path):
    content = bytearray(zipped({"b.bin": b"b" * 5_000_000}))
    told = (5_000_000).to_bytes(4, "little")
    assert content.count(told) == 2  # in the header of the file and in the list at the end
    (tmp_path / "archive").write_bytes(content.replace(told, (10).to_bytes(4, "little")))
    with pytest.raises(BadInput, match="archive"):
        unpack(tmp_path / "archive", FILES[1:], tmp_path / "out")
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) <= 10


def test_a_folder_of_the_unpacked_files_will_do(root, tmp_path, monkeypatch):
    offer(monkeypatch, tar(inside(GOOD)))
    (tmp_path / "usb").mkdir()
    for name, content in GOOD.items():
        (tmp_path / "usb" / name).write_bytes(content)
    assert cli.main(["fetch", "toy", "--from", "usb"]) == 0
    assert {path.name: path.read_bytes() for path in (root / "toy").iterdir()} == GOOD
