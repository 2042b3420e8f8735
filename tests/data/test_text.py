"""Texts and tokenizers: known token counts, round trips, and refusals in one sentence."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from processes import python

from dtlib.data import corpus, open_text
from dtlib.data.english import english
from dtlib.data.places import cache_folder, cached
from dtlib.data.tokenizer import BytePair, Closed, blocks, from_folder, gpt2, train
from dtlib.errors import BadInput

PROSE = "The quick brown fox isn't quick:  it's 42 times\n\n as lazy \t as any dög. \n" * 3


@pytest.fixture
def folder(tmp_path):
    """A folder with three splits of text."""
    for name, text in {"train": PROSE * 40, "valid": PROSE, "test": "a fox " + PROSE}.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode())
    return tmp_path


# -- the grammar's text ---------------------------------------------------------------------------


def test_grammar_text_has_a_token_a_word_and_fresh_validation():
    data = open_text("grammar", size=5000, seed=2)
    grammar = english()
    assert len(data.train) == 5000
    assert data.train.tolist() == grammar.sample(5000, 2, 0).tolist()
    assert not torch.equal(data.train[:1000], data.valid[:1000])
    assert not torch.equal(data.valid[:1000], data.test[:1000])
    assert data.tokenizer.vocab_size == len(grammar.vocabulary) == int(data.train.max()) + 1
    assert data.entropy_per_token == grammar.entropy
    text = data.tokenizer.decode(data.train[:50])
    assert text.split()[0] in ("this", "every", "another", "these", "many", "some")
    assert torch.equal(data.tokenizer.encode(text), data.train[:50])


def test_no_window_of_grammar_text_is_below_the_entropy_on_average():
    """Every token's best loss given its whole past has the entropy as its mean."""
    data = open_text("grammar", seed=0, size=2)
    grammar = english()
    n = len(data.test)
    mean = grammar.surprisals(data.test.numpy()).mean()
    assert abs(mean - grammar.entropy) < 4 * grammar.sampling_error(n)


def test_the_grammar_keeps_its_own_tokenizer():
    with pytest.raises(BadInput, match="leave out the tokenizer 'gpt2'"):
        open_text("grammar", tokenizer="gpt2")
    with pytest.raises(BadInput, match="seed -1"):
        open_text("grammar", seed=-1)
    with pytest.raises(BadInput, match="text of 1 tokens is too short"):
        open_text("grammar", size=1)


# -- corpora --------------------------------------------------------------------------------------


def test_a_folder_of_splits_is_read_as_it_is(folder):
    data = open_text(str(folder), tokenizer="characters")
    assert data.tokenizer.decode(data.test) == "a fox " + PROSE
    assert data.tokenizer.decode(data.valid) == PROSE
    assert data.entropy_per_token is None
    assert data.tokenizer.vocab_size == len(set("a fox " + PROSE))
    assert len(open_text(str(folder), tokenizer="characters", size=33).train) == 33
    n = 40 * len(PROSE)
    with pytest.raises(BadInput, match=f"holds {n} training tokens, fewer than the {n + 1}"):
        open_text(str(folder), tokenizer="characters", size=n + 1)


def test_any_folder_is_joined_by_name_and_cut_at_90_and_95_percent(tmp_path):
    (tmp_path / "b.txt").write_text("b" * 59)
    (tmp_path / "a.txt").write_text("a" * 40)
    (tmp_path / "notes.md").write_text("not text of the corpus")
    data = open_text(str(tmp_path), tokenizer="characters")
    parts = [data.tokenizer.decode(t) for t in (data.train, data.valid, data.test)]
    assert "".join(parts) == "a" * 40 + "\n" + "b" * 59
    assert [len(part) for part in parts] == [90, 5, 5]
    assert "cut at 90 % and 95 %" in data.protocol


def test_word_level_wikitext_is_known_by_its_unk(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"wiki.{split}.raw").write_text("a rare word \n")
    raw = open_text(str(tmp_path), tokenizer="characters")
    (tmp_path / "wiki.train.raw").write_text("a <unk> word \n")
    words = open_text(str(tmp_path), tokenizer="characters")
    assert ", raw; tokenizer characters" in raw.protocol
    assert "word level (rare words are <unk>)" in words.protocol


def test_line_ends_stay_as_they_are(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n" * 10)
    data = open_text(str(tmp_path), tokenizer="characters")
    assert data.tokenizer.decode(data.train).count("\r\n") == 18


def test_what_is_no_corpus_is_refused_in_one_sentence(tmp_path, monkeypatch):
    cases = {
        "none": "there is no data folder",
        "empty": r"holds no \.txt files",
        "partial": r"has train\.txt and test\.txt but not all of",
        "latin": r"a\.txt is not UTF-8 text: byte 2",
        "blank": r"a\.txt is empty",
    }
    for name in ("empty", "partial", "latin", "blank"):
        (tmp_path / name).mkdir()
    (tmp_path / "partial" / "train.txt").write_text("a")
    (tmp_path / "partial" / "test.txt").write_text("a")
    (tmp_path / "latin" / "a.txt").write_bytes("dög".encode("latin-1").replace(b"d", b"dd"))
    (tmp_path / "blank" / "a.txt").write_text(" \n")
    for name, sentence in cases.items():
        with pytest.raises(BadInput, match=sentence) as caught:
            open_text(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=f"wikitext2 was not found in {tmp_path}, .*`dtlib fetch w"):
        open_text("wikitext2")
    with pytest.raises(BadInput, match=f"shakespeare was not found in {tmp_path}, .*`dtlib fetch"):
        open_text("shakespeare")
    with pytest.raises(BadInput, match=r"'wikitext' .* Did you mean 'wikitext2'"):
        open_text("wikitext")


# -- tokenizers -----------------------------------------------------------------------------------


def test_blocks_are_cut_between_words_and_join_to_the_text():
    text = PROSE * 20
    pieces = list(blocks(text, size=100))
    assert len(pieces) > 10
    assert "".join(pieces) == text
    for before, after in itertools.pairwise(pieces):
        assert not before[-1].isspace()
        assert after[0] == " "
        assert not after[1].isspace()


def test_a_trained_tokenizer_is_the_same_each_time_and_loses_nothing(tmp_path, monkeypatch):
    made = train(PROSE * 50, 280)
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path))
    again = train(PROSE * 50, 280)
    cached = train(PROSE * 50, 280)
    assert made.inner.to_str() == again.inner.to_str() == cached.inner.to_str()
    assert made.vocab_size == 280
    for text in (PROSE, "zażółć 日本 🙂 \x00"):
        assert made.decode(made.encode(text)) == text
    assert len(made.encode(PROSE)) < len(PROSE.encode())
    with pytest.raises(BadInput, match="vocabulary of 255 is too small"):
        train(PROSE, 255)


def test_a_trained_tokenizer_is_the_same_in_another_process(tmp_path):
    code = (
        "import sys; from dtlib.data.tokenizer import train; "
        "print(train(sys.argv[1] * 50, 300).inner.to_str())"
    )
    env = {"DTLIB_CACHE": str(tmp_path), "PYTHONHASHSEED": "7", "PATH": ""}
    run = python("-c", code, PROSE, env=env)
    assert run.stdout.strip() == train(PROSE * 50, 300).inner.to_str(), run.stderr


def test_tokens_come_from_the_cache_and_a_damaged_one_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path))
    text = PROSE * 400
    tokenizer = train(PROSE * 50, 300)
    first = tokenizer.encode(text)
    (path,) = (tmp_path / "tokens").glob("*.npy")
    np.save(path, np.array([7, 8], dtype=np.int32))
    assert tokenizer.encode(text).tolist() == [7, 8], "the cache was not read"
    path.write_bytes(path.read_bytes()[:50])
    assert torch.equal(tokenizer.encode(text), first)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert torch.equal(tokenizer.encode(text), first), "a pickle was loaded"
    assert not list((tmp_path / "tokens").glob(".tmp-*")), "a half-written file was left"


# field bug 9.01
def test_one_of_many_makes_what_is_cached(tmp_path):
    made = []

    def make() -> bytes:
        made.append(threading.get_ident())
        time.sleep(0.2)
        return b"content"

    def fetch(_: int) -> str:
        return cached(tmp_path / "file", load=bytes.decode, make=make)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fetch, range(4))) == ["content"] * 4
    assert len(made) == 1


def test_a_damaged_tokenizer_in_the_cache_is_trained_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path))
    made = train(PROSE * 50, 280)
    (path,) = (tmp_path / "tokenizers").glob("*.json")
    path.write_text("{")
    assert train(PROSE * 50, 280).inner.to_str() == made.inner.to_str()


def test_a_cache_that_cannot_be_written_costs_no_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "file"))
    assert len(train(PROSE * 50, 300).encode(PROSE * 400)) > 100


def test_an_unknown_unit_is_named():
    words = Closed("words", ["a", "b"], " ")
    assert words.encode("b a").tolist() == [1, 0]
    with pytest.raises(BadInput, match="'c' is not among the 2 units of tokenizer words"):
        words.encode("a c")


def test_an_empty_tokenizer_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"holds no tokenizer: it needs vocab\.json"):
        from_folder(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(BadInput, match="is empty or has lost its files: it has 1 tokens"):
        from_folder(tmp_path)
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read"):
        from_folder(tmp_path)


def test_a_saved_tokenizer_is_read_from_its_folder(tmp_path, folder):
    made = train(PROSE * 50, 300)
    (tmp_path / "own").mkdir()
    made.inner.save(str(tmp_path / "own" / "tokenizer.json"))
    data = open_text(str(folder), tokenizer=str(tmp_path / "own"))
    assert torch.equal(data.valid, made.encode(PROSE))
    with pytest.raises(BadInput, match=r"tokenizer 'gpt-2' is unknown.*Did you mean 'gpt2'"):
        open_text(str(folder), tokenizer="gpt-2")


def test_gpt2_tokenizer_that_is_nowhere_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=rf"not found in {tmp_path}, .*`dtlib fetch gpt2-tokenizer`"):
        gpt2()


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_folder() != cache_folder().home() / ".cache" / "dtlib", "tests must not use it"
    monkeypatch.delenv("DTLIB_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "dtlib"


# -- real data ------------------------------------------------------------------------------------


@pytest.fixture
def real(real_data, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(real_data))
    return real_data


@pytest.mark.data
def test_gpt2_tokenizer_is_the_real_one(real):
    tokenizer = gpt2()
    assert tokenizer.vocab_size == 50_257
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.encode("<|endoftext|>").tolist() == [50256]
    assert tokenizer.decode(torch.tensor([15496, 995, 50256])) == "Hello world<|endoftext|>"


@pytest.mark.data
def test_blocks_give_the_tokens_of_the_whole_text(real):
    text = (real / "wikitext-2" / "wiki.test.raw").read_text(encoding="utf-8")[:200_000] + PROSE
    tokenizer = gpt2()
    whole = tokenizer.inner.encode(text, add_special_tokens=False).ids
    pieces = [tokenizer.encode(piece) for piece in blocks(text, size=500)]
    assert len(pieces) > 300
    assert torch.cat(pieces).tolist() == whole


@pytest.mark.data
def test_wikitext2_has_the_known_number_of_tokens_to_evaluate(real):
    text = corpus.load("wikitext2")
    tokenizer = gpt2()
    assert len(tokenizer.encode(text.valid)) == 258_659
    assert len(tokenizer.encode(text.test)) == 295_877


@pytest.mark.slow
@pytest.mark.data
def test_wikitext2_has_the_known_number_of_tokens(real):
    data = open_text("wikitext2", tokenizer="gpt2")
    assert [len(t) for t in (data.train, data.valid, data.test)] == [2_448_382, 258_659, 295_877]
    assert "word level" in data.protocol
    assert data.train.dtype == torch.int64


@pytest.mark.data
def test_shakespeare_is_cut_as_stated(real):
    data = open_text("shakespeare")
    assert [len(t) for t in (data.train, data.valid, data.test)] == [1_003_854, 55_770, 55_770]
    assert data.tokenizer.vocab_size == 65
    assert data.tokenizer.decode(data.train[:13]) == "First Citizen"
    uniform = math.log(data.tokenizer.vocab_size)
    counts = data.train.bincount().double() / len(data.train)
    assert 3.0 < -(counts * counts.log()).sum().item() < uniform  # characters are not uniform


def test_byte_pair_is_what_opens(folder):
    data = open_text(str(folder), vocab_size=280)
    assert isinstance(data.tokenizer, BytePair)
    assert data.tokenizer.name == "trained-280"
    assert data.tokenizer.decode(data.valid) == PROSE
