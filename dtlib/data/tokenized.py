"""The tokens of documents, made once: one process writes them, and all ranks read them.

The cache is a folder under a hash of everything that decides the tokens. It is prepared under
another name and published by one rename, and each file counts only with the checksum that was
written down last, so a killed writer or a torn disk leaves nothing that is taken for whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dtlib.config.files import fsync_folder, write_atomically
from dtlib.data.corpus import SPLITS
from dtlib.data.documents import EVERY, Documents
from dtlib.data.fetch.locking import locked
from dtlib.data.places import cache_folder
from dtlib.data.tokenizer import Tokenizer
from dtlib.errors import BadInput, counted, in_words

VERSION = 1  # of the layout; another version is another key
DTYPE = "<i4"  # the same bytes on every machine that shares the folder


class Tokens(NamedTuple):
    """The tokens of the three splits, int64 [n], and how many documents each split has."""

    splits: dict[str, Tensor]
    counts: dict[str, int]


def tokenized(documents: Documents, tokenizer: Tokenizer) -> Tokens:
    """Return the tokens of documents, each followed by end-of-text, from the cache if it has them.

    Raises
    ------
    BadInput
        If the tokenizer has no end-of-text, a document cannot be read, there are too few documents,
        the files change meanwhile, or the cache cannot be written.
    Unavailable
        If another process holds the lock and shows no sign of life.
    """
    if tokenizer.end_of_text is None:
        raise BadInput(
            f"tokenizer {tokenizer.name} has no token for end-of-text, which separates documents: "
            "name it as eos_token in tokenizer_config.json, or use --tokenizer trained."
        )
    identity = documents.identity()
    key = hashlib.sha256(repr((VERSION, EVERY, identity, tokenizer.fingerprint)).encode())
    folder = cache_folder() / "tokens" / key.hexdigest()
    if there := _read(folder):
        return there
    stage = folder.with_suffix(".part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock"), stage, setting="DTLIB_CACHE"):
            if there := _read(folder):  # another process made it while this one waited
                return there
            _publish(folder, stage, documents, tokenizer, identity)
    except OSError as error:
        raise BadInput(
            f"the tokens of {documents.path} cannot be kept in {folder.parent}"
            f" ({in_words(error)}): set DTLIB_CACHE to a folder that can be written."
        ) from error
    made = _read(folder)
    assert made is not None, f"{folder} was written and cannot be read"
    return made


def _publish(
    folder: Path, stage: Path, documents: Documents, tokenizer: Tokenizer, identity: str
) -> None:
    for left in (stage, folder):  # by a writer that was killed, or by a torn disk
        shutil.rmtree(left, ignore_errors=True)
    stage.mkdir()
    try:
        print(
            f"tokenizing {documents.path} with {tokenizer.name}, once for all ranks",
            file=sys.stderr,
            flush=True,
        )
        facts = _write(stage, documents, tokenizer)
        _refuse_few(documents, {split: fact["documents"] for split, fact in facts.items()})
        if documents.identity() != identity:
            raise BadInput(
                f"{documents.path} changed while it was tokenized: start again when it is complete."
            )
        write_atomically(stage / "about.json", json.dumps(facts, indent=1))
        stage.rename(folder)
        fsync_folder(folder.parent)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _write(stage: Path, documents: Documents, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """Write a file of tokens for each split; return the facts by which they are known as whole."""
    counts = dict.fromkeys(SPLITS, 0)
    digests = {split: hashlib.sha256() for split in SPLITS}
    with ExitStack() as stack:
        files = {s: stack.enter_context((stage / f"{s}.tokens").open("wb")) for s in SPLITS}
        for split, texts in documents.batches():
            content = tokenizer.encode_documents(texts).astype(DTYPE).tobytes()
            files[split].write(content)
            digests[split].update(content)
            counts[split] += len(texts)
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return {s: {"documents": counts[s], "sha256": digests[s].hexdigest()} for s in SPLITS}


def _refuse_few(documents: Documents, counts: dict[str, int]) -> None:
    if all(counts.values()):
        return
    there = sum(counts.values())
    empty = [split for split, count in counts.items() if not count]
    if own := [split for split in empty if split in documents.parts and split != "train"]:
        raise BadInput(f"{documents.path} has no document with text in its split {own[0]}.")
    raise BadInput(
        f"{documents.path} has {counted(there, 'document')} with text, but at least {EVERY} are "
        f"needed ({documents.held_out}): add documents, or give it splits of its own."
    )


def _read(folder: Path) -> Tokens | None:
    """Return the tokens in a folder, or None if it does not have all of them, bit by bit."""
    try:
        facts = json.loads((folder / "about.json").read_text())
        splits = {}
        for split in SPLITS:
            content = (folder / f"{split}.tokens").read_bytes()
            if hashlib.sha256(content).hexdigest() != facts[split]["sha256"]:
                return None
            splits[split] = torch.from_numpy(np.frombuffer(content, DTYPE).astype(np.int64))
        return Tokens(splits, {split: facts[split]["documents"] for split in SPLITS})
    except (OSError, ValueError, KeyError, TypeError):
        return None
