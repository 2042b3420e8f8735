"""Documents from parquet, JSON lines, `datasets` and text files, and the cache of their tokens."""

import contextlib
import io
import json
import multiprocessing
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import dtlib
from dtlib.data import check_text, documents, formats, open_text, tokenized
from dtlib.data.tokenizer import END_OF_TEXT, BytePair, Closed, from_folder, train_on_documents
from dtlib.errors import BadInput, Unavailable

TEXTS = [
    f"Document {n}: {'the cat sleeps and ' * (n % 3)}a dog runs {n * n} times." for n in range(60)
]
VALID, TEST = TEXTS[18::20], TEXTS[19::20]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "cache"))


def write_parquet(path: Path, texts=TEXTS, column: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"id": list(range(len(texts))), column: texts}
    pyarrow.parquet.write_table(pyarrow.table(rows), path)
    return path


def write_lines(path: Path, texts=TEXTS, column: str = "text") -> Path:
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in texts))
    return path


def write_many(folder: Path) -> Path:
    folder.mkdir()
    for n, text in enumerate(TEXTS):
        (folder / f"{n:03}.txt").write_text(text)
    return folder


def write_hub_layout(folder: Path) -> Path:
    training = [text for text in TEXTS if text not in (*VALID, *TEST)]
    parts = {"train-00000-of-00002": training[:30], "train-00001-of-00002": training[30:]}
    for name, texts in {**parts, "validation-00000-of-00001": VALID, "test": TEST}.items():
        write_parquet(folder / "data" / f"{name}.parquet", texts)
    return folder


def documents_of(data, split: str) -> list[str]:
    return data.tokenizer.decode(getattr(data, split)).split(END_OF_TEXT)[:-1]


WAYS = {
    "a parquet file": lambda path: write_parquet(path / "docs.parquet"),
    "a folder of parquet": lambda path: write_parquet(path / "folder" / "docs.parquet").parent,
    "a folder as the Hub lays it out": lambda path: write_hub_layout(path / "hub"),
    "JSON lines": lambda path: write_lines(path / "docs.jsonl"),
    "the only column of text": lambda path: write_lines(path / "docs.json", column="body"),
    "many text files": lambda path: write_many(path / "many"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokenizer", [None, "characters"])
def test_every_way_gives_the_same_documents_and_held_out_ones(way, tokenizer, tmp_path):
    data = open_text(str(WAYS[way](tmp_path)), tokenizer=tokenizer)
    assert documents_of(data, "valid") == VALID
    assert documents_of(data, "test") == TEST
    assert documents_of(data, "train") == [t for t in TEXTS if t not in (*VALID, *TEST)]
    assert "54 train, 3 valid, 3 test documents, each followed by end-of-text" in data.protocol
    as_published = "valid and test as published"
    dealt = "of every 20 training documents the 19th for valid and the 20th for test"
    assert (as_published if "Hub" in way else dealt) in data.protocol
    assert check_text(data.source.partition(" (")[0], tokenizer) == len(data.train)


def test_a_folder_that_datasets_saved_with_and_without_splits(tmp_path):
    import datasets

    whole = datasets.Dataset.from_dict({"n": list(range(60)), "text": TEXTS})
    whole.save_to_disk(tmp_path / "whole")
    datasets.DatasetDict(
        train=whole.select(range(40)), dev=whole.select(range(40, 60))
    ).save_to_disk(tmp_path / "parts")
    assert documents_of(open_text(str(tmp_path / "whole")), "valid") == VALID
    parts = open_text(str(tmp_path / "parts"))
    assert documents_of(parts, "valid") == TEXTS[40:]
    assert documents_of(parts, "test") == [TEXTS[19], TEXTS[39]]
    assert TEXTS[18] in documents_of(parts, "train")


def test_what_a_document_says_of_end_of_text_ends_no_document(tmp_path):
    said = [f"{END_OF_TEXT}{text}{END_OF_TEXT}" for text in TEXTS]
    data = open_text(str(write_lines(tmp_path / "docs.jsonl", said)))
    assert int((data.valid == data.tokenizer.end_of_text).sum()) == 3
    assert data.tokenizer.decode(data.valid) == "".join(said[n] + END_OF_TEXT for n in (18, 38, 58))


def test_a_tokenizer_is_given_or_read_with_its_own_end_of_text(tmp_path):
    path = write_lines(tmp_path / "docs.jsonl")
    trained = train_on_documents(lambda: iter(TEXTS), "x", 300)
    given = BytePair("given", trained.inner)
    assert open_text(str(path), tokenizer=given).tokenizer is given
    trained.inner.add_special_tokens(["</s>"])
    (tmp_path / "own").mkdir()
    trained.inner.save(str(tmp_path / "own" / "tokenizer.json"))
    settings = tmp_path / "own" / "tokenizer_config.json"
    settings.write_text('{"eos_token": {"content": "</s>"}}')
    data = open_text(str(path), tokenizer=str(tmp_path / "own"))
    assert (
        data.valid[-1]
        == trained.inner.token_to_id("</s>")
        == from_folder(settings.parent).end_of_text
    )
    settings.write_text('{"eos_token": "<none>"}')
    with pytest.raises(BadInput, match="tokenizer own has no token for end-of-text"):
        open_text(str(path), tokenizer=str(tmp_path / "own"))


# -- what is refused ------------------------------------------------------------------------------

OBJECT = b'{"text": "a"}\n'
REFUSED = {
    "title.jsonl": (b'{"title": "a", "body": "b", "n": 1}\n',
                    r"has no column 'text'; its columns are title \(string\), body \(string\), "
                    r"n \(int64\): use --text-column title or --text-column body"),
    "number.jsonl": (b'{"text": 3, "a": "a", "b": "b"}',
                     "the column 'text' of .* is int64, not text; .*: use --text-column a or"),
    "none.jsonl": (b'{"n": 3}', "none of them holds text"),
    "empty.jsonl": (b"", r"empty\.jsonl is empty \(0 bytes\)"),
    "blank.jsonl": (b"\n \n", r"blank\.jsonl is empty \(3 bytes\)"),
    "empty.parquet": (b"", r"empty\.parquet is empty \(0 bytes\)"),
    "torn.parquet": (b"PAR1 and then nothing", r"torn\.parquet cannot be read: .*; get the whole"),
    "broken.jsonl": (OBJECT * 6 + b'{"text": "b\n', r"line 7 of .* is not JSON in .*'{\"text"),
    "latin.jsonl": (OBJECT + '{"text": "ö"}'.encode("latin-1"), "line 2 of .* is not JSON in"),
    "array.json": (b'[{"text":\n "a"}]', "line 1 of .*: write one object a line"),
    "list.jsonl": (b"[3]", "line 1 of .* is not a JSON object but a list"),
    "later.jsonl": (OBJECT + b'\n{"text": [1]}', r"'text' in line 3 of .* is not text but \[1\]"),
    "gone.jsonl": (OBJECT + b'{"body": "x"}', "'text' in line 2 of .* is missing"),
    "few.jsonl": (OBJECT * 19, "has 19 documents with text, but at least 20 are needed"),
    "nulls.jsonl": (OBJECT * 19 + b'{"text": null}\n{"text": " "}\n', "has 19 documents with text"),
    "notes.md": (b"text", r"is no data file: give UTF-8 text \(\.txt\), parquet, JSON lines"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(name, tmp_path):
    content, sentence = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=sentence) as caught:
        open_text(str(tmp_path / name), tokenizer="characters")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("cache/tokens/*"))


def test_a_folder_whose_files_do_not_belong_together_is_refused(tmp_path):
    write_parquet(tmp_path / "a" / "docs.parquet")
    (tmp_path / "a" / "more.txt").write_text("x")
    with pytest.raises(
        BadInput, match=r"has 1 \.parquet file and 1 \.txt file: give a folder with"
    ):
        open_text(str(tmp_path / "a"))
    write_parquet(tmp_path / "b" / "test.parquet")
    with pytest.raises(BadInput, match=r"b has test\.parquet, but nothing called train"):
        open_text(str(tmp_path / "b"))
    write_parquet(tmp_path / "b" / "other.parquet")
    with pytest.raises(BadInput, match=r"and other\.parquet, whose name says no split"):
        open_text(str(tmp_path / "b"))


def test_a_text_column_is_chosen_or_has_no_effect(tmp_path):
    path = write_lines(tmp_path / "docs.jsonl", column="body")
    assert open_text(str(path), text_column="body").source.endswith("column body)")
    with pytest.raises(BadInput, match=r"no column 'bodi'.* Did you mean 'body'\?"):
        open_text(str(path), text_column="bodi")
    (tmp_path / "story.txt").write_text("a story " * 40)
    for name in (str(tmp_path / "story.txt"), "grammar"):
        with pytest.raises(BadInput, match="text_column body has no effect"):
            check_text(name, text_column="body")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "docs.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Unavailable, match=r"docs\.parquet needs the package pyarrow .*pip install"):
        open_text(str(path))


# -- the cache ------------------------------------------------------------------------------------


def entries(tmp_path: Path) -> list[Path]:
    return sorted(p for p in (tmp_path / "cache" / "tokens").iterdir() if p.suffix != ".lock")


def test_what_decides_the_tokens_is_in_the_key(tmp_path, capfd):
    path = write_lines(tmp_path / "docs.jsonl")
    for _ in range(2):
        before = open_text(str(path)).train
    assert len(entries(tmp_path)) == 1 and capfd.readouterr().err.count("tokenizing") == 1
    write_lines(path, [text.replace("cat", "cow") for text in TEXTS])  # the same size
    assert open_text(str(path)).train.tolist() != before.tolist() or len(entries(tmp_path)) == 2
    assert "cow" in "".join(documents_of(open_text(str(path)), "train"))
    open_text(str(path), tokenizer="characters")
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize("damage", ["short", "flipped", "gone", "no facts"])
def test_a_torn_cache_never_counts(damage, tmp_path, capfd):
    path = write_lines(tmp_path / "docs.jsonl")
    want = open_text(str(path)).train.tolist()
    file = entries(tmp_path)[0] / ("about.json" if damage == "no facts" else "train.tokens")
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            b"\1" + content[1:] if damage == "flipped" else content[: len(content) // 2]
        )
    assert open_text(str(path)).train.tolist() == want
    assert capfd.readouterr().err.count("tokenizing") == 2
    assert file.read_bytes() == content


def _open_slowly(path: str, pause: float, answers) -> None:
    """Open documents in a process of its own that takes its time over each piece of them."""
    whole = Closed.encode_documents

    def slow(self, texts):
        time.sleep(pause)
        return whole(self, texts)

    Closed.encode_documents = slow
    with contextlib.redirect_stderr(io.StringIO()) as said:
        count = len(open_text(path, tokenizer="characters").train)
    answers.put((count, said.getvalue().count("tokenizing")))


def start(path: Path, pause: float):
    """Start such a process as a copy of this one, because importing torch takes seconds."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=_open_slowly, args=(str(path), pause, answers), daemon=True)
    process.start()
    return process, answers


def test_a_killed_writer_leaves_nothing_that_counts(tmp_path):
    path = write_lines(tmp_path / "docs.jsonl")
    writer, _ = start(path, pause=60)
    stages = tmp_path / "cache" / "tokens"
    end = time.monotonic() + 60
    try:
        while not list(stages.glob("*.part/train.tokens")):
            assert writer.is_alive() and time.monotonic() < end
            time.sleep(0.05)
    finally:
        writer.kill()
        writer.join(30)
    assert [entry.suffix for entry in entries(tmp_path)] == [".part"]
    assert documents_of(open_text(str(path), tokenizer="characters"), "valid") == VALID
    assert [entry.suffix for entry in entries(tmp_path)] == [""]


def test_of_processes_that_start_together_one_tokenizes(tmp_path):
    path = write_lines(tmp_path / "docs.jsonl")
    started = [start(path, pause=0.1) for _ in range(3)]
    for process, _ in started:
        process.join(60)
        assert process.exitcode == 0
    found = [answers.get() for _, answers in started]
    assert len({count for count, _ in found}) == 1
    assert sum(times for _, times in found) == 1


def test_files_that_change_meanwhile_are_not_kept(tmp_path, monkeypatch):
    path = write_lines(tmp_path / "docs.jsonl")
    whole = tokenized._write

    def changing(*words):
        facts = whole(*words)
        write_lines(path, [*TEXTS, "one more"])
        return facts

    monkeypatch.setattr(tokenized, "_write", changing)
    with pytest.raises(BadInput, match="changed while it was tokenized"):
        open_text(str(path))
    assert not entries(tmp_path)


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    path = write_lines(tmp_path / "docs.jsonl")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadInput, match=r"cannot be kept in .*: set DTLIB_CACHE to a folder"):
        open_text(str(path), tokenizer="characters")


def test_batches_of_rows_do_not_change_who_is_held_out(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "docs.parquet")
    monkeypatch.setattr(formats, "ROWS", 7)
    found = documents.find(str(path))
    assert found is not None
    assert [t for split, some in found.batches() if split == "valid" for t in some] == VALID


# -- training -------------------------------------------------------------------------------------


def test_a_gpt_learns_from_a_parquet_folder_alike_on_one_and_two_ranks(tmp_path, monkeypatch):
    import datasets

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    datasets.Dataset.from_dict({"text": TEXTS}).to_parquet(tmp_path / "folder" / "d.parquet")
    settings = {"data": str(tmp_path / "folder"), "model": "nano", "max_length": 16}
    settings |= {"global_batch": 8, "steps": 3, "tokenizer": "characters", "timeout": 60}
    one, two = (dtlib.train("text", ranks, **settings) for ranks in (1, 2))
    losses = [[line["loss"] for line in run.history] for run in (one, two)]
    # fp32: the ranks add up in another order; the bound is that of test_loop_equality
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert losses[0][-1] < losses[0][0]
    last = json.loads((two.folder / "evaluations.jsonl").read_text().splitlines()[-1])
    assert "3 valid, 3 test documents" in last["protocol"]
