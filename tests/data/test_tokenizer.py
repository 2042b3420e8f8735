"""Tokenizers: round trips, what is cached, and refusals in one sentence."""

import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from processes import python

from dtlib.data.places import cache_folder, cached
from dtlib.data.tokenizer import Closed, blocks, from_folder, gpt2, train
from dtlib.errors import BadInput

PROSE = "The quick brown fox isn't quick:  it's 42 times\n\n as lazy \t as any dög. \n" * 3


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


def test_an_empty_tokenizer_is_refused_and_one_that_is_nowhere(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"has no tokenizer: it needs vocab\.json"):
        from_folder(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(BadInput, match="is empty or its files are missing: it has 1 token,"):
        from_folder(tmp_path)
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read"):
        from_folder(tmp_path)
    monkeypatch.setenv("DTLIB_DATA", f"{tmp_path}/none")
    with pytest.raises(
        BadInput, match=rf"not found in {tmp_path}/none, .*`dtlib fetch gpt2-tokenizer`"
    ):
        gpt2()


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_folder() != cache_folder().home() / ".cache" / "dtlib", "tests must not use it"
    monkeypatch.delenv("DTLIB_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "dtlib"
