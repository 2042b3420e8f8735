"""Downloads: from a server that breaks off, stalls, lies or sends a page; by hand; found after."""

from __future__ import annotations

import hashlib
import random
import socket
import tarfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from fetch_server import PAGE, Server, serving

import dtlib.data.fetch
from dtlib import cli
from dtlib.data import corpus, open_images, tokenizer
from dtlib.data.fetch import download, place
from dtlib.data.fetch.progress import Progress, amount
from dtlib.data.fetch.sources import SOURCES, File, Source
from dtlib.errors import BadInput, Unavailable
from tests.conftest import write_cifar

BODY = random.Random(0).randbytes(300_000)


def file_of(body: bytes, *urls: str, name: str = "file.bin", exact: bool = True) -> File:
    return File(name, hashlib.sha256(body).hexdigest(), len(body), urls, exact)


def toy(*files: File, archive: File | None = None) -> Source:
    return Source("toy", "a toy", "toy-folder", files, "free", "Nobody (2026)", archive)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """The folder into which everything is fetched; it does not exist yet."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path / "data root"))
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "PAUSE", 0.0)
    return tmp_path / "data root"


@pytest.fixture
def server():
    with serving(BODY) as server:
        yield server


def offer(monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    monkeypatch.setattr(dtlib.data.fetch, "SOURCES", {source.name: source})


def fetched(monkeypatch: pytest.MonkeyPatch, capsys, *words: str) -> tuple[int, str]:
    """Run `dtlib fetch`, and return its exit code and what it said on stderr."""
    code = cli.main(["fetch", *words])
    return code, capsys.readouterr().err


# -- a server that behaves, and one that does not -------------------------------------------------


@pytest.mark.parametrize(
    ("how", "requests"),
    [
        ("good", [""]),
        ("moved", ["", ""]),
        ("busy_once", ["", ""]),
        ("breaks_once", ["", "bytes=150000-"]),
        ("no_range", ["", "bytes=150000-"]),
        ("promises_more", [""]),
    ],
)
def test_what_can_be_had_is_had(how, requests, server: Server, root, monkeypatch, capsys):
    offer(monkeypatch, toy(file_of(BODY, server.url(how))))
    code, said = fetched(monkeypatch, capsys, "toy")
    assert code == 0, said
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [path.name for path in root.iterdir()] == ["toy-folder"], "nothing else is left"
    assert [span for _, span in server.asked] == requests


def test_a_server_that_stalls_is_asked_for_the_rest(server: Server, root, monkeypatch):
    monkeypatch.setattr(download, "STALL", 0.5)
    place.bring(toy(file_of(BODY, server.url("stalls"))), show=False)
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [span for _, span in server.asked] == ["", "bytes=150000-"]


def test_a_broken_download_is_kept_and_gone_on_with(server: Server, root, monkeypatch, capsys):
    offer(monkeypatch, toy(file_of(BODY, server.url("always_breaks"))))
    code, said = fetched(monkeypatch, capsys, "toy")
    last = said.splitlines()[-1]
    assert code == 69
    assert "150 kB of 300 kB are kept" in last
    assert "run this again to go on" in last and "dtlib fetch toy --from FILE" in last
    assert len(server.asked) == download.TRIES, "tries that bring nothing are counted"
    server.asked.clear()
    offer(monkeypatch, toy(file_of(BODY, server.url("good"))))
    assert fetched(monkeypatch, capsys, "toy")[0] == 0
    assert server.asked == [("good", "bytes=150000-")]
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [path.name for path in root.iterdir()] == ["toy-folder"]


@pytest.mark.parametrize(
    ("left", "requests"),
    [
        (BODY[:9], ["bytes=9-"]),
        (b"not its beginning", ["bytes=17-", ""]),
        (BODY + b"too long", [""]),
        (b"", [""]),
        (BODY, []),
    ],
)
def test_whatever_lay_there_the_file_is_right(left, requests, server: Server, root):
    part = root / ".fetch-toy" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    place.bring(toy(file_of(BODY, server.url("good"))), show=False)
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [span for _, span in server.asked] == requests


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("page", ["web page", hashlib.sha256(PAGE).hexdigest()]),
        ("page_unsized", ["web page", hashlib.sha256(PAGE).hexdigest()]),
        ("promises_less", ["has 299,993 of 300,000 bytes", "cut off"]),
        ("endless", ["longer"]),
    ],
)
def test_what_is_not_the_file_is_one_sentence(how, words, server, root, monkeypatch, capsys):
    offer(monkeypatch, toy(file_of(BODY, server.url(how))))
    code, said = fetched(monkeypatch, capsys, "toy")
    assert code == 2
    assert said.count("\n") == 1 and "Traceback" not in said
    for word in [*words, "expected", hashlib.sha256(BODY).hexdigest(), server.url(how)]:
        assert word in said
    assert not root.exists(), "nothing is left behind"


def test_a_login_page_does_not_cost_what_was_downloaded(server: Server, root, monkeypatch, capsys):
    part = root / ".fetch-toy" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY[:1000])
    offer(monkeypatch, toy(file_of(BODY, server.url("page"))))
    code, said = fetched(monkeypatch, capsys, "toy")
    assert code == 69 and "sent a web page instead of the file" in said
    assert part.read_bytes() == BODY[:1000]


def test_a_mirror_helps_where_the_first_address_does_not(server: Server, root):
    for how in ("gone", "page", "promises_less"):
        source = toy(file_of(BODY, server.url(how), server.url("good"), name=f"{how}.bin"))
        folder, new = place.bring(source, show=False)
        assert new and (folder / f"{how}.bin").read_bytes() == BODY


def test_a_size_that_is_not_known_exactly_is_no_hindrance(server: Server, root):
    file = file_of(BODY, server.url("breaks_once"), exact=False)
    rough = File(file.name, file.sha256, file.size - 123, file.urls, exact=False)
    folder, _ = place.bring(toy(rough), show=False)
    assert (folder / "file.bin").read_bytes() == BODY
    assert len(server.asked) == 2
    (root / ".fetch-toy").mkdir()
    (folder / "file.bin").rename(root / ".fetch-toy" / "file.bin.part")
    place.bring(toy(rough), show=False)
    assert len(server.asked) == 2, "a run that ended after the last byte is not begun anew"


# -- no internet ----------------------------------------------------------------------------------


@pytest.fixture
def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}/good/file.bin"


def test_no_internet_is_one_sentence_that_names_the_way_by_hand(nowhere, root, monkeypatch, capsys):
    monkeypatch.setattr(download.time, "sleep", lambda _: pytest.fail("there is no retry"))
    offer(monkeypatch, toy(file_of(BODY, nowhere)))
    code, said = fetched(monkeypatch, capsys, "toy")
    assert code == 69
    assert said.count("\n") == 1
    assert "connection refused" in said and nowhere in said
    assert "dtlib fetch toy --from FILE" in said
    assert not root.exists()


def test_a_name_server_that_never_answers_is_not_waited_for(root, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(download, "CONNECT", 0.05)
    monkeypatch.setattr(download.socket, "create_connection", lambda *_, **__: ended.wait(60))
    urls = ("https://one.invalid/f", "https://two.invalid/f")
    with pytest.raises(Unavailable, match=r"one\.invalid: no answer; no way to two\.invalid: no"):
        place.bring(toy(file_of(BODY, *urls)), show=False)
    ended.set()


def test_the_proxy_is_what_must_be_reached(monkeypatch):
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    assert download._first_host("https://huggingface.co/x") == ("proxy.invalid", 3128)
    monkeypatch.delenv("https_proxy")
    assert download._first_host("https://huggingface.co/x") == ("huggingface.co", 443)


def test_several_files_are_brought_as_a_folder(nowhere, root, monkeypatch, capsys, tmp_path):
    files = [file_of(BODY[:n], f"{nowhere}{n}", name=f"{n}.bin") for n in (10, 20)]
    offer(monkeypatch, toy(*files))
    code, said = fetched(monkeypatch, capsys, "toy")
    assert code == 69 and "`dtlib fetch toy --urls`" in said and "--from FOLDER" in said
    assert cli.main(["fetch", "toy", "--urls"]) == 0
    shown = capsys.readouterr().out
    for file in files:
        assert file.urls[0] in shown and file.sha256 in shown
    (tmp_path / "usb").mkdir()
    for n in (10, 20):
        (tmp_path / "usb" / f"{n}.bin").write_bytes(BODY[:n])
    assert fetched(monkeypatch, capsys, "toy", "--from", str(tmp_path / "usb"))[0] == 0
    assert sorted(path.name for path in (root / "toy-folder").iterdir()) == ["10.bin", "20.bin"]
    (tmp_path / "usb" / "20.bin").unlink()
    offer(monkeypatch, toy(*files, file_of(b"x", nowhere, name="x.bin")))
    code, said = fetched(monkeypatch, capsys, "toy", "--from", str(tmp_path / "usb"))
    assert code == 2 and "has no x.bin" in said and "10.bin, 20.bin, x.bin" in said


# -- by hand --------------------------------------------------------------------------------------


def test_a_carried_file_needs_no_network_and_no_name(nowhere, root, monkeypatch, capsys, tmp_path):
    offer(monkeypatch, toy(file_of(BODY, nowhere)))
    (tmp_path / "download(1)").write_bytes(BODY)
    code, said = fetched(monkeypatch, capsys, "toy", "--from", "download(1)")
    assert (code, said) == (0, "")
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert (tmp_path / "download(1)").read_bytes() == BODY


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BODY[:-1], "has 299,999 of 300,000 bytes"),
        (BODY[::-1], "another file or another version"),
        (PAGE, "web page"),
        (BODY + b"!", "longer"),
        (b"", "has 0 of 300,000 bytes"),
    ],
)
def test_a_wrong_carried_file_is_one_sentence(content, words, root, monkeypatch, capsys, tmp_path):
    offer(monkeypatch, toy(file_of(BODY, "http://x.invalid/file.bin")))
    (tmp_path / "file.bin").write_bytes(content)
    code, said = fetched(monkeypatch, capsys, "toy", "--from", "file.bin")
    assert code == 2 and said.count("\n") == 1
    assert words in said and "expected" in said and hashlib.sha256(BODY).hexdigest() in said
    assert not root.exists(), "nothing is left behind"
    (tmp_path / "file.bin").write_bytes(BODY)
    assert fetched(monkeypatch, capsys, "toy", "--from", "file.bin")[0] == 0


def test_what_is_asked_wrongly_is_one_sentence(monkeypatch, capsys):
    for words, part in {
        ("cifar",): "Did you mean 'cifar10'?",
        ("--from", "x"): "dtlib fetch NAME --from FILE",
        ("cifar10", "--from", "none.tgz"): "there is no none.tgz to take cifar10 from",
        ("cifar10", "wikitext2", "--from", "."): "belongs to one name, but there are 2",
        ("cifar10", "--form", "x"): "--from",
    }.items():
        code, said = fetched(monkeypatch, capsys, *words)
        assert code == 2 and said.count("\n") == 1 and part in said


# -- what is there already ------------------------------------------------------------------------


def test_what_is_right_is_not_brought_again(server: Server, root, monkeypatch, capsys):
    offer(monkeypatch, toy(file_of(BODY, server.url("good"))))
    assert fetched(monkeypatch, capsys, "toy")[0] == 0
    assert cli.main(["fetch", "toy"]) == 0
    assert "already in" in capsys.readouterr().out
    assert len(server.asked) == 1


def test_only_what_is_damaged_is_brought_again(server: Server, root):
    files = [file_of(BODY, server.url("good")), file_of(b"small", "http://x.invalid", name="s")]
    folder = root / "toy-folder"
    folder.mkdir(parents=True)
    (folder / "file.bin").write_bytes(b"?" * len(BODY))
    (folder / "s").write_bytes(b"small")
    (folder / "mine.txt").write_bytes(b"keep me")
    assert place.bring(toy(*files), show=False) == (folder, True)
    assert (folder / "file.bin").read_bytes() == BODY
    assert (folder / "mine.txt").read_bytes() == b"keep me"


def test_no_room_is_said_before_anything_is_downloaded(server: Server, root, monkeypatch):
    full = SimpleNamespace(free=1000)
    monkeypatch.setattr(place.shutil, "disk_usage", lambda _: full)
    with pytest.raises(Unavailable, match=r"needs 300 kB and .* has 1 kB free"):
        place.bring(toy(file_of(BODY, server.url("good"))), show=False)
    assert not server.asked and not root.exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path / "a file" / "below"))
    with pytest.raises(Unavailable, match=r"cannot be put into .*set DTLIB_DATA to a folder of yo"):
        place.bring(toy(file_of(BODY, "http://x.invalid")), show=False)


# -- the table, and finding what was fetched ------------------------------------------------------


def test_the_table_is_complete():
    assert set(SOURCES) == {
        "cifar10", "wikitext2", "shakespeare", "gpt2-tokenizer",
        "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl",
    }  # fmt: skip
    for source in SOURCES.values():
        assert source.licence and source.cite and source.what
        for file in (*source.files, *source.downloads):
            assert len(file.sha256) == 64 and set(file.sha256) <= set("0123456789abcdef")
            assert file.size > 0
        for file in source.downloads:
            assert file.urls and all(url.startswith("https://") for url in file.urls)
        assert len({file.sha256 for file in source.files}) == len(source.files)


@pytest.mark.data
def test_the_table_agrees_with_real_files(real_data):
    def check(name: str, file: str, path: str) -> None:
        (found,) = [one for one in SOURCES[name].files if one.name == file]
        content = (real_data / path).read_bytes()
        assert (found.sha256, found.size) == (hashlib.sha256(content).hexdigest(), len(content))

    check("shakespeare", "tinyshakespeare.txt", "tinyshakespeare.txt")
    check("wikitext2", "wiki.test.raw", "wikitext-2/wiki.test.raw")
    for name in ("gpt2-tokenizer", "gpt2-xl"):
        for file in ("vocab.json", "merges.txt"):
            check(name, file, f"gpt2-bpe/{file}")


@pytest.mark.data
def test_real_text_and_tokenizer_are_found_after_fetching(real_data, monkeypatch, capsys):
    carried = {
        "shakespeare": real_data / "tinyshakespeare.txt",
        "gpt2-tokenizer": real_data / "gpt2-bpe",
    }
    for name, path in carried.items():
        assert fetched(monkeypatch, capsys, name, "--from", str(path)) == (0, "")
    text = corpus.load("shakespeare")
    assert len(text.train + text.valid + text.test) == 1_115_394
    assert tokenizer.gpt2().encode("Hello world").tolist() == [15496, 995]


def test_an_archive_is_unpacked_and_found(tmp_path, monkeypatch, capsys):
    with pytest.raises(BadInput, match="`dtlib fetch cifar10`"):
        open_images("cifar10", "train")
    inner = write_cifar(tmp_path / "made") / "cifar-10-batches-bin"
    (inner / "readme.html").write_text("<html>")
    with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as tar:
        tar.add(inner, inner.name)
    real = SOURCES["cifar10"]
    files = [file_of((inner / one.name).read_bytes(), name=one.name) for one in real.files]
    archive = file_of((tmp_path / "c.tar.gz").read_bytes(), "http://x.invalid/c.tar.gz")
    offer(monkeypatch, Source("cifar10", "", real.folder, tuple(files), "", "", archive))
    assert fetched(monkeypatch, capsys, "cifar10", "--from", "c.tar.gz") == (0, "")
    assert len(open_images("cifar10", "train")) == 100


def test_raw_text_that_was_fetched_goes_before_the_word_level(root, tmp_path, monkeypatch, capsys):
    with pytest.raises(BadInput, match="`dtlib fetch wikitext2`"):
        corpus.load("wikitext2")
    (root / "wikitext-2").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (root / "wikitext-2" / f"{split}.txt").write_text("word <unk> level")
    files = [file_of(b"raw text", name=f"wiki.{split}.raw") for split in ("train", "valid", "test")]
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as zipped:
        for file in files:
            zipped.writestr(f"wikitext-2-raw/{file.name}", b"raw text")
    archive = file_of((tmp_path / "w.zip").read_bytes(), "http://x.invalid/w.zip")
    folder = SOURCES["wikitext2"].folder
    offer(monkeypatch, Source("wikitext2", "", folder, tuple(files), "", "", archive))
    assert fetched(monkeypatch, capsys, "wikitext2", "--from", "w.zip") == (0, "")
    assert corpus.load("wikitext2").train == "raw text"


def test_the_list_names_all_with_sizes_and_places(server: Server, root, monkeypatch, capsys):
    assert cli.main(["fetch"]) == 0
    shown = capsys.readouterr().out
    for name in SOURCES:
        assert f"\n{name} " in f"\n{shown}"
    assert "170 MB" in shown and "6.43 GB" in shown and shown.count("not here") == len(SOURCES)
    assert str(root) in shown and "--from FILE" in shown
    offer(monkeypatch, toy(file_of(BODY, server.url("good"))))
    assert cli.main(["fetch", "toy"]) == 0
    capsys.readouterr()
    assert cli.main(["fetch"]) == 0
    assert f"in {root / 'toy-folder'}" in capsys.readouterr().out


# -- progress -------------------------------------------------------------------------------------


def test_a_log_gets_a_line_at_every_tenth_of_a_large_file(capsys):
    progress = Progress("big", 100_000_000)
    for done in range(0, 100_000_001, 1_000_000):
        progress.update(done)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "big: 10 % of 100 MB" and len(lines) == 10
    Progress("big", 100_000_000, show=False).update(100_000_000)
    Progress("small", 1000).update(1000)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_that_goes_away(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = Progress("big", 1000)
    progress.update(1000)
    progress.note("trying again")
    progress.close()
    shown = capsys.readouterr().err
    assert "█" * 24 + " 1 kB of 1 kB, big" in shown and shown.endswith("\r\x1b[K")
    assert "\r\x1b[Ktrying again\n" in shown


def test_amounts_are_decimal():
    assert [amount(n) for n in (0, 999, 1000, 170_052_171, 6_431_900_000)] == [
        "0 B", "999 B", "1 kB", "170 MB", "6.43 GB",
    ]  # fmt: skip
