"""Text as tokens, from a grammar or a corpus, with the tokenizer that made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dtlib.data import corpus, documents
from dtlib.data.corpus import Corpus
from dtlib.data.documents import Documents
from dtlib.data.english import english
from dtlib.data.grammar import Grammar
from dtlib.data.places import is_folder_name
from dtlib.data.tokenized import tokenized
from dtlib.data.tokenizer import (
    END_OF_TEXT,
    Closed,
    Tokenizer,
    from_folder,
    gpt2,
    train,
    train_on_documents,
)
from dtlib.errors import BadInput, counted, did_you_mean

NAMES = ("grammar", *corpus.NAMES)
TOKENIZERS = ("gpt2", "trained", "characters")
GRAMMAR_TOKENS = {"train": 1_000_000, "valid": 32_768, "test": 65_536}


@dataclass(frozen=True)
class TextData:
    """The tokens of a text.

    Attributes
    ----------
    train, valid, test : Tensor
        int64 [n].
    tokenizer : Tokenizer
        The tokenizer that made them.
    protocol : str
        How a perplexity on this text is measured, in words: data, tokenizer, windows.
    source : str
        Where the text came from.
    grammar : Grammar or None
        The grammar that made the text, if one did; it knows the best possible loss on any text.
    """

    train: Tensor
    valid: Tensor
    test: Tensor
    tokenizer: Tokenizer
    protocol: str
    source: str
    grammar: Grammar | None = None


def open_text(
    name_or_folder: str,
    *,
    tokenizer: str | Tokenizer | None = None,
    text_column: str | None = None,
    seed: int = 0,
    size: int | None = None,
    vocab_size: int = 4096,
) -> TextData:
    """Open a text as tokens.

    Parameters
    ----------
    name_or_folder : str
        "grammar" (made from `seed`), "wikitext2" or "shakespeare" (looked up, see
        `dtlib.data.places.roots`), running text (a .txt file, or a folder of a few), or documents,
        which end-of-text separates (see `dtlib.data.documents.find`).
    tokenizer : str or Tokenizer, optional
        "gpt2", "trained" (byte pairs, on the training text), "characters", a folder with
        tokenizer.json or with vocab.json and merges.txt, or a tokenizer that exists already. By
        default words for the grammar, characters for shakespeare, and "trained" for the rest.
    text_column : str, optional
        The column of documents that holds their text: by default "text", or the only one of text.
    seed : int
        For the grammar only.
    size : int, optional
        Tokens of training text: how many the grammar makes (default 1,000,000), or how many from
        the start of the text are kept.
    vocab_size : int
        Size of a trained tokenizer's vocabulary.

    Raises
    ------
    BadInput
        If there is no such text, folder or tokenizer.
    """
    if size is not None and size < 2:
        raise BadInput(
            f"a text of {counted(size, 'token')} is too short: training needs at least 2."
        )
    if name_or_folder == "grammar":
        _refuse_for_grammar(tokenizer, text_column)
        return _from_grammar(seed, size)
    if found := _documents(name_or_folder, text_column):
        data = _from_documents(found, tokenizer, vocab_size)
    else:
        data = _from_corpus(_corpus(name_or_folder), name_or_folder, tokenizer, vocab_size)
    if size is None:
        return data
    if size > len(data.train):
        raise BadInput(
            f"{data.source} has {counted(len(data.train), 'training token')}, fewer than the "
            f"{size} requested: request fewer samples, or use more text."
        )
    return replace(data, train=data.train[:size])


def check_text(
    name_or_folder: str,
    tokenizer: str | Tokenizer | None = None,
    text_column: str | None = None,
) -> int | None:
    """Refuse a text or a tokenizer that cannot be used; return the number of training tokens.

    None means the grammar, which makes as many as are needed. The tokens of documents and of a long
    text are cached, so that no rank has to make them again.

    Raises `BadInput` as `open_text` does, and if a split is too short to predict a token of it.
    """
    if name_or_folder == "grammar":
        _refuse_for_grammar(tokenizer, text_column)
        return None
    data = open_text(name_or_folder, tokenizer=tokenizer, text_column=text_column)
    for split, tokens in (("train", data.train), ("valid", data.valid)):
        if len(tokens) < 2:
            raise BadInput(
                f"{data.source} is too short: its {split} split has"
                f" {counted(len(tokens), 'token')}, but a prediction needs 2; use more text."
            )
    return len(data.train)


def _corpus(name_or_folder: str) -> Corpus:
    if name_or_folder not in corpus.NAMES and not _is_path(name_or_folder):
        raise BadInput(
            f"there is no text, file or folder called {name_or_folder!r}: choose from "
            f"{', '.join(NAMES)}, or give a file or folder.{did_you_mean(name_or_folder, NAMES)}"
        )
    return corpus.load(name_or_folder)


def _is_path(name: str) -> bool:
    return is_folder_name(name) or Path(name).is_file()


def _documents(name_or_folder: str, text_column: str | None) -> Documents | None:
    """Return the documents of a path, or None for running text, which has no columns."""
    known = name_or_folder in corpus.NAMES or not _is_path(name_or_folder)
    found = None if known else documents.find(name_or_folder, text_column)
    if text_column and not found:
        raise BadInput(
            f"text_column {text_column} has no effect: {name_or_folder} has no columns, which only "
            "parquet, JSON lines and folders of datasets have; leave it out."
        )
    return found


def _from_corpus(
    text: Corpus, name: str, tokenizer: str | Tokenizer | None, vocab_size: int
) -> TextData:
    if tokenizer is None:
        tokenizer = "characters" if name == "shakespeare" else "trained"
    if tokenizer == "trained":
        chosen: Tokenizer = train(text.train, vocab_size)
    elif tokenizer == "characters":
        every = set().union(*(getattr(text, split) for split in corpus.SPLITS))
        chosen = Closed("characters", sorted(every), "")
    else:
        chosen = _existing(tokenizer)
    return TextData(
        train=chosen.encode(text.train),
        valid=chosen.encode(text.valid),
        test=chosen.encode(text.test),
        tokenizer=chosen,
        protocol=_protocol(text.name, chosen),
        source=text.source,
    )


def _from_documents(
    found: Documents, tokenizer: str | Tokenizer | None, vocab_size: int
) -> TextData:
    def training() -> Iterator[str]:
        return (text for split, some in found.batches() if split == "train" for text in some)

    if tokenizer in (None, "trained"):
        chosen: Tokenizer = train_on_documents(training, found.identity(), vocab_size)
    elif tokenizer == "characters":
        every = set().union(*(text for _, some in found.batches() for text in some))
        chosen = Closed("characters", (*sorted(every), END_OF_TEXT), "")
    else:
        assert tokenizer is not None
        chosen = _existing(tokenizer)
    tokens = tokenized(found, chosen)
    counts = ", ".join(f"{count} {split}" for split, count in tokens.counts.items())
    name = f"{found.path.name}, {counts} documents, each followed by end-of-text"
    return TextData(
        train=tokens.splits["train"],
        valid=tokens.splits["valid"],
        test=tokens.splits["test"],
        tokenizer=chosen,
        protocol=_protocol(f"{name}, {found.held_out}", chosen),
        source=f"{found.path} ({found.kind.name}, column {found.column})",
    )


def _refuse_for_grammar(tokenizer: str | Tokenizer | None, text_column: str | None) -> None:
    if text_column:
        raise BadInput(
            f"text_column {text_column} has no effect with the grammar, which has no columns; "
            "leave it out."
        )
    if tokenizer is not None:
        name = tokenizer if isinstance(tokenizer, str) else tokenizer.name
        raise BadInput(
            "text from the grammar has its own tokenizer, with one token per word, so that its "
            f"entropy per token is known: leave out the tokenizer {name!r}."
        )


def _from_grammar(seed: int, size: int | None) -> TextData:
    if seed < 0:
        raise BadInput(f"the grammar's seed {seed} must be at least 0.")
    grammar = english()
    lengths = {**GRAMMAR_TOKENS, **({"train": size} if size else {})}
    # Each split has a text of its own, so validation text is fresh.
    parts = {
        split: torch.from_numpy(grammar.sample(lengths[split], seed, number))
        for number, split in enumerate(corpus.SPLITS)
    }
    words = Closed("words", grammar.vocabulary, " ")
    return TextData(
        **parts,
        tokenizer=words,
        protocol=_protocol("grammar, fresh text", words),
        source=f"grammar, seed {seed}",
        grammar=grammar,
    )


def _existing(tokenizer: str | Tokenizer) -> Tokenizer:
    """Return a tokenizer that does not depend on the text."""
    if not isinstance(tokenizer, str):
        return tokenizer
    if tokenizer == "gpt2":
        return gpt2()
    if is_folder_name(tokenizer):
        return from_folder(Path(tokenizer).expanduser())
    raise BadInput(
        f"tokenizer {tokenizer!r} is unknown: choose from {', '.join(TOKENIZERS)}, or give a"
        f" folder.{did_you_mean(tokenizer, TOKENIZERS)}"
    )


def _protocol(name: str, tokenizer: Tokenizer) -> str:
    return (
        f"{name}; tokenizer {tokenizer.name} ({tokenizer.vocab_size} tokens); perplexity per token "
        "over windows that do not overlap, each predicted from its own beginning; every token but "
        "the first counts once"
    )
