"""Texts and tokenizers: known token counts, round trips, and refusals in one sentence."""

import math

import pytest
import torch

from dtlib.data import corpus, open_text
from dtlib.data.english import english
from dtlib.data.tokenizer import BytePair, blocks, gpt2, train
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
    assert data.grammar.entropy == grammar.entropy
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
    with pytest.raises(BadInput, match="text of 1 token is too short"):
        open_text("grammar", size=1)


# -- corpora --------------------------------------------------------------------------------------


def test_a_folder_of_splits_is_read_as_it_is(folder):
    data = open_text(str(folder), tokenizer="characters")
    assert data.tokenizer.decode(data.test) == "a fox " + PROSE
    assert data.tokenizer.decode(data.valid) == PROSE
    assert data.grammar is None
    assert data.tokenizer.vocab_size == len(set("a fox " + PROSE))
    assert len(open_text(str(folder), tokenizer="characters", size=33).train) == 33
    n = 40 * len(PROSE)
    with pytest.raises(BadInput, match=f"has {n} training tokens, fewer than the {n + 1}"):
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
    cases = {"none": "there is no data folder", "empty": r"has no \.txt files",
             "partial": r"has train\.txt and test\.txt but not all of",
             "latin": r"a\.txt is not UTF-8 text: byte 2", "blank": r"a\.txt is empty"}  # fmt: skip
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
    with pytest.raises(BadInput, match=r"'wikitext': .* Did you mean 'wikitext2'"):
        open_text("wikitext")


def test_a_saved_tokenizer_is_read_from_its_folder(tmp_path, folder):
    made = train(PROSE * 50, 300)
    (tmp_path / "own").mkdir()
    made.inner.save(str(tmp_path / "own" / "tokenizer.json"))
    data = open_text(str(folder), tokenizer=str(tmp_path / "own"))
    assert torch.equal(data.valid, made.encode(PROSE))
    with pytest.raises(BadInput, match=r"tokenizer 'gpt-2' is unknown.*Did you mean 'gpt2'"):
        open_text(str(folder), tokenizer="gpt-2")


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
