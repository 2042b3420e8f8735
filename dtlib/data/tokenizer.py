"""Tokenizers: GPT-2's byte pairs from a folder, byte pairs trained here, characters, words."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from dtlib.data.places import cache_folder, cached, find
from dtlib.errors import BadInput, counted, in_words

BYTES = 256
END_OF_TEXT = "<|endoftext|>"
BLOCK = 1 << 16  # characters that one thread encodes at a time
TOKENIZER_FILES = ("tokenizer.json", "vocab.json")


class Tokenizer(Protocol):
    """Turns text into tokens and back."""

    name: str
    end_of_text: int | None  # the token that ends a document, if there is one

    @property
    def vocab_size(self) -> int:
        """Number of different tokens."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides which tokens a text becomes."""
        ...

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, int64 [n]."""
        ...

    def decode(self, tokens: Tensor) -> str:
        """Return the text of tokens [n]."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return the tokens of documents, each followed by end-of-text, int32 [n].

        The marker of end-of-text, where a document *says* it, is ordinary text.
        """
        ...


class Closed:
    """A fixed list of units, each a token: the words of a grammar, or the characters of a text.

    A unit's token is its place in the list; the separator between units is " " for words and ""
    for characters. The name is for records.
    """

    def __init__(self, name: str, units: Sequence[str], separator: str) -> None:
        self.name, self.units, self.separator = name, tuple(units), separator
        self._number = {unit: i for i, unit in enumerate(self.units)}
        self.end_of_text = self._number.get(END_OF_TEXT)

    @property
    def vocab_size(self) -> int:
        return len(self.units)

    @property
    def fingerprint(self) -> str:
        return _hash(repr((self.units, self.separator)))

    def encode(self, text: str) -> Tensor:
        parts = text.split() if self.separator else text
        try:
            return torch.tensor([self._number[part] for part in parts], dtype=torch.int64)
        except KeyError as error:
            raise BadInput(
                f"{error.args[0]!r} is not among the {self.vocab_size} units of tokenizer "
                f"{self.name}: remove it from the text, or use a byte-pair tokenizer."
            ) from error

    def decode(self, tokens: Tensor) -> str:
        return self.separator.join(self.units[i] for i in tokens.tolist())

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        tokens = [[*self.encode(text).tolist(), self.end_of_text] for text in texts]
        return np.array(list(chain(*tokens)), dtype=np.int32)


class BytePair:
    """Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) by the `tokenizers` library.

    The tokens of long texts are kept in the cache folder, under a hash of text and tokenizer.
    `end_of_text` is the text of the token that ends a document.
    """

    def __init__(
        self, name: str, inner: tokenizers.Tokenizer, end_of_text: str = END_OF_TEXT
    ) -> None:
        self.name, self.inner = name, inner
        self.end_of_text = inner.token_to_id(end_of_text)
        if inner.get_vocab_size() < BYTES or not inner.encode("Hello world").ids:
            raise BadInput(
                f"tokenizer {name} is empty or its files are missing: it has "
                f"{counted(inner.get_vocab_size(), 'token')}, but bytes alone need {BYTES}."
            )
        self._byte_level = isinstance(inner.pre_tokenizer, pre_tokenizers.ByteLevel)

    @property
    def vocab_size(self) -> int:
        return self.inner.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        return _hash(f"{self.end_of_text} {self.inner.to_str()}")

    def encode(self, text: str) -> Tensor:
        if len(text) <= BLOCK:
            return torch.from_numpy(self._encode(text).astype(np.int64))
        digest = hashlib.sha256(self.inner.to_str().encode())
        digest.update(text.encode())
        path = cache_folder() / "tokens" / f"{digest.hexdigest()}.npy"
        tokens = cached(
            path,
            load=lambda content: np.load(io.BytesIO(content), allow_pickle=False),
            make=lambda: _npy(self._encode(text)),
        )
        return torch.from_numpy(tokens.astype(np.int64))

    def _encode(self, text: str) -> np.ndarray:
        pieces = list(blocks(text)) if self._byte_level else [text]
        encoded = self.inner.encode_batch(pieces, add_special_tokens=False)
        parts = [np.array(one.ids, dtype=np.int32) for one in encoded]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def decode(self, tokens: Tensor) -> str:
        return self.inner.decode(tokens.tolist(), skip_special_tokens=False)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        cut = [list(blocks(text)) if self._byte_level else [text] for text in texts]
        as_text, self.inner.encode_special_tokens = self.inner.encode_special_tokens, True
        try:
            encoded = self.inner.encode_batch(list(chain(*cut)), add_special_tokens=False)
        finally:
            self.inner.encode_special_tokens = as_text
        pieces, ids = iter(encoded), []
        for parts in cut:
            ids += [one.ids for one in islice(pieces, len(parts))] + [[self.end_of_text]]
        return np.array(list(chain(*ids)), dtype=np.int32)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _npy(tokens: np.ndarray) -> bytes:
    """Return the content of the array's .npy file."""
    file = io.BytesIO()
    np.save(file, tokens, allow_pickle=False)
    return file.getvalue()


def blocks(text: str, size: int = BLOCK) -> Iterator[str]:
    """Cut a text into blocks that can be encoded separately and give the tokens of the whole.

    Byte-level BPE first splits text into words that include one space before them, so a single
    space between two words always begins a piece: the text is cut there, and only there.
    """
    cut = re.compile(r"(?<=\S) (?=\S)")
    start = 0
    while start < len(text):
        found = cut.search(text, start + size)
        end = found.start() if found else len(text)
        yield text[start:end]
        start = end


def _byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def from_json(content: bytes, name: str) -> BytePair:
    """Make a tokenizer from the content of its tokenizer.json."""
    return BytePair(name, tokenizers.Tokenizer.from_buffer(content))


def from_folder(folder: Path, name: str | None = None) -> BytePair:
    """Read `tokenizer.json`, or `vocab.json` and `merges.txt` (GPT-2's files), from a folder.

    Raises `BadInput` if the files are missing, damaged, or make an empty tokenizer.
    """
    vocabulary, merges, whole = (
        folder / file for file in ("vocab.json", "merges.txt", "tokenizer.json")
    )
    try:
        if whole.is_file():  # it says how text is split, which the other two leave open
            inner = tokenizers.Tokenizer.from_file(str(whole))
        elif vocabulary.is_file() and merges.is_file():
            inner = _byte_level(models.BPE.from_file(str(vocabulary), str(merges)))
            if inner.token_to_id(END_OF_TEXT) is not None:
                inner.add_special_tokens([END_OF_TEXT])
        else:
            needs = "vocab.json and merges.txt, or tokenizer.json"
            raise BadInput(f"{folder} has no tokenizer: it needs {needs}.")
    except BadInput:
        raise
    except Exception as error:  # the library raises bare Exception
        raise BadInput(f"the tokenizer in {folder} cannot be read: {in_words(error)}.") from error
    return BytePair(name or folder.name, inner, _end_of_text(folder))


def _end_of_text(folder: Path) -> str:
    """Return the marker that transformers' settings beside a tokenizer name, otherwise GPT-2's."""
    settings = folder / "tokenizer_config.json"
    try:
        said = json.loads(settings.read_text()).get("eos_token") if settings.is_file() else None
    except (ValueError, AttributeError) as error:
        raise BadInput(f"{settings} cannot be read: {in_words(error)}.") from error
    return (said.get("content") if isinstance(said, dict) else said) or END_OF_TEXT


def gpt2() -> BytePair:
    """Return GPT-2's tokenizer (50,257 tokens), looked up as `gpt2-bpe` or `gpt2`.

    Raises `BadInput` if its two files are not found; the message says where dtlib looked.
    """
    folder = find(
        "GPT-2's tokenizer",
        ("gpt2-bpe", "gpt2", ""),
        lambda f: (f / "vocab.json").is_file() and (f / "merges.txt").is_file(),
        "run `dtlib fetch gpt2-tokenizer`, or train a tokenizer here with --tokenizer trained",
    )
    return from_folder(folder, "gpt2")


def train(text: str, vocab_size: int) -> BytePair:
    """Train byte pairs on a text; the same text and size give the same tokenizer.

    It is kept in the cache folder, under a hash of the text. A short text may yield fewer tokens
    than `vocab_size`. Raises `BadInput` if `vocab_size` is below 256, the number of bytes.
    """
    return _trained(f"{vocab_size} {text}", vocab_size, lambda: blocks(text), [])


def train_on_documents(
    texts: Callable[[], Iterator[str]], identity: str, vocab_size: int
) -> BytePair:
    """Train byte pairs on documents as `train` does, with a token for end-of-text among them.

    The tokenizer is kept under the documents' `identity`, so `texts` is called only if there is no
    tokenizer for them.
    """
    return _trained(f"documents {vocab_size} {identity}", vocab_size, texts, [END_OF_TEXT])


def _trained(
    key: str, vocab_size: int, texts: Callable[[], Iterator[str]], special: list[str]
) -> BytePair:
    if vocab_size < BYTES:
        raise BadInput(f"a byte-pair vocabulary of {vocab_size} is too small: bytes need {BYTES}.")
    return cached(
        cache_folder() / "tokenizers" / f"{_hash(key)}.json",
        load=lambda content: from_json(content, f"trained-{vocab_size}"),
        make=lambda: _train(texts(), vocab_size, special).to_str().encode(),
    )


def _train(texts: Iterator[str], vocab_size: int, special: list[str]) -> tokenizers.Tokenizer:
    inner = _byte_level(models.BPE())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False,
        special_tokens=special,
    )  # fmt: skip
    inner.train_from_iterator(texts, trainer)
    return inner
