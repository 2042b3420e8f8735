"""The table of what can be fetched, finding what was, and how far a download is."""

import hashlib
import tarfile
import zipfile

import pytest
from fetch_server import BODY, Server, fetched, file_of, offer, toy

from dtlib import cli
from dtlib.data import corpus, open_images, tokenizer
from dtlib.data.fetch.progress import Progress, amount
from dtlib.data.fetch.sources import SOURCES, Source
from dtlib.errors import BadInput
from tests.conftest import write_cifar

pytestmark = pytest.mark.usefixtures("root")


# -- the table, and finding what was fetched ------------------------------------------------------


def test_the_table_is_complete():
    assert set(SOURCES) == {"cifar10", "wikitext2", "shakespeare", "gpt2-tokenizer", "gpt2",
                            "gpt2-medium", "gpt2-large", "gpt2-xl"}  # fmt: skip
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
