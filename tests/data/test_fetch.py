"""Downloads: from a server that breaks off, stalls, lies or sends a page; by hand; found after."""

import hashlib
import socket
import threading
from types import SimpleNamespace

import pytest
from fetch_server import BODY, PAGE, Server, fetched, file_of, offer, toy

from dtlib import cli
from dtlib.data.fetch import download, place
from dtlib.data.fetch.sources import File
from dtlib.errors import Unavailable

pytestmark = pytest.mark.usefixtures("root")


# -- a server that behaves, and one that does not -------------------------------------------------


@pytest.mark.parametrize(("how", "requests"), [
    ("good", [""]), ("moved", ["", ""]), ("busy_once", ["", ""]),
    ("breaks_once", ["", "bytes=150000-"]), ("no_range", ["", "bytes=150000-"]),
    ("promises_more", [""]),
])  # fmt: skip
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
    assert "run this again to resume it" in last and "dtlib fetch toy --from FILE" in last
    assert len(server.asked) == download.TRIES, "tries that bring nothing are counted"
    server.asked.clear()
    offer(monkeypatch, toy(file_of(BODY, server.url("good"))))
    assert fetched(monkeypatch, capsys, "toy")[0] == 0
    assert server.asked == [("good", "bytes=150000-")]
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [path.name for path in root.iterdir()] == ["toy-folder"]


@pytest.mark.parametrize(("left", "requests"), [
    (BODY[:9], ["bytes=9-"]), (b"not its beginning", ["bytes=17-", ""]), (BODY + b"too long", [""]),
    (b"", [""]), (BODY, []),
])  # fmt: skip
def test_whatever_lay_there_the_file_is_right(left, requests, server: Server, root):
    part = root / ".fetch-toy" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    place.bring(toy(file_of(BODY, server.url("good"))), show=False)
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert [span for _, span in server.asked] == requests


@pytest.mark.parametrize(("how", "words"), [
    ("page", ["web page", hashlib.sha256(PAGE).hexdigest()]),
    ("page_unsized", ["web page", hashlib.sha256(PAGE).hexdigest()]),
    ("promises_less", ["has 299,993 of 300,000 bytes", "cut off"]),
    ("endless", ["longer"]),
])  # fmt: skip
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


@pytest.mark.parametrize(("content", "words"), [
    (BODY[:-1], "has 299,999 of 300,000 bytes"),
    (BODY[::-1], "another file or another version"),
    (PAGE, "web page"),
    (BODY + b"!", "longer"),
    (b"", "has 0 of 300,000 bytes"),
])  # fmt: skip
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
