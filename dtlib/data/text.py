"""Text as tokens, from a grammar or a corpus, with the tokenizer that made them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dtlib.data import corpus
from dtlib.data.corpus import Corpus
from dtlib.data.english import english
from dtlib.data.grammar import Grammar
from dtlib.data.places import is_folder_name
from dtlib.data.tokenizer import Closed, Tokenizer, from_folder, gpt2, train
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
    tokenizer: str | None = None,
    seed: int = 0,
    size: int | None = None,
    vocab_size: int = 4096,
) -> TextData:
    """Open a text as tokens.

    Parameters
    ----------
    name_or_folder : str
        "grammar" (made from `seed`), "wikitext2" or "shakespeare" (looked up, see
        `dtlib.data.places.roots`), or a folder of .txt files.
    tokenizer : str, optional
        "gpt2", "trained" (byte pairs, on the training text), "characters", or a folder with
        vocab.json and merges.txt. By default words for the grammar, characters for shakespeare, and
        "trained" for the rest.
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
        return _from_grammar(tokenizer, seed, size)
    text = _corpus(name_or_folder)
    if tokenizer is None:
        tokenizer = "characters" if name_or_folder == "shakespeare" else "trained"
    chosen = _tokenizer(tokenizer, text, vocab_size)
    parts = {split: chosen.encode(getattr(text, split)) for split in corpus.SPLITS}
    if size is not None and size > len(parts["train"]):
        raise BadInput(
            f"{text.source} has {counted(len(parts['train']), 'training token')}, fewer than the "
            f"{size} requested: request fewer samples, or use more text."
        )
    return TextData(
        train=parts["train"][:size],
        valid=parts["valid"],
        test=parts["test"],
        tokenizer=chosen,
        protocol=_protocol(text.name, chosen),
        source=text.source,
    )


def check_text(name_or_folder: str, tokenizer: str | None = None) -> int | None:
    """Refuse a text or a tokenizer that cannot be used; return the number of training tokens.

    None means the grammar, which makes as many as are needed. The tokens of a long text are cached,
    so that no rank has to make them again.

    Raises `BadInput` as `open_text` does, and if a split is too short to predict a token of it.
    """
    if name_or_folder == "grammar":
        _refuse_for_grammar(tokenizer)
        return None
    data = open_text(name_or_folder, tokenizer=tokenizer)
    for split, tokens in (("train", data.train), ("valid", data.valid)):
        if len(tokens) < 2:
            raise BadInput(
                f"{data.source} is too short: its {split} split has"
                f" {counted(len(tokens), 'token')}, but a prediction needs 2; use more text."
            )
    return len(data.train)


def _corpus(name_or_folder: str) -> Corpus:
    if name_or_folder not in corpus.NAMES and not is_folder_name(name_or_folder):
        raise BadInput(
            f"there is no text or folder called {name_or_folder!r}: choose from "
            f"{', '.join(NAMES)}, or give a folder.{did_you_mean(name_or_folder, NAMES)}"
        )
    return corpus.load(name_or_folder)


def _refuse_for_grammar(tokenizer: str | None) -> None:
    if tokenizer is not None:
        raise BadInput(
            "text from the grammar has its own tokenizer, with one token per word, so that its "
            f"entropy per token is known: leave out the tokenizer {tokenizer!r}."
        )


def _from_grammar(tokenizer: str | None, seed: int, size: int | None) -> TextData:
    _refuse_for_grammar(tokenizer)
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


def _tokenizer(name: str, text: Corpus, vocab_size: int) -> Tokenizer:
    if name == "gpt2":
        return gpt2()
    if name == "trained":
        return train(text.train, vocab_size)
    if name == "characters":
        every = set().union(*(getattr(text, split) for split in corpus.SPLITS))
        return Closed("characters", sorted(every), "")
    if is_folder_name(name):
        return from_folder(Path(name).expanduser())
    raise BadInput(
        f"tokenizer {name!r} is unknown: choose from {', '.join(TOKENIZERS)}, or give a folder."
        f"{did_you_mean(name, TOKENIZERS)}"
    )


def _protocol(name: str, tokenizer: Tokenizer) -> str:
    return (
        f"{name}; tokenizer {tokenizer.name} ({tokenizer.vocab_size} tokens); perplexity per token "
        "over windows that do not overlap, each predicted from its own beginning; every token but "
        "the first counts once"
    )
