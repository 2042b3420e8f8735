"""Documents: rows of parquet, JSON lines or a `datasets` folder, or many text files.

They are found, dealt to the three splits, and read in batches; nothing is tokenized here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dtlib.data.corpus import SPLITS
from dtlib.data.formats import LINES, PARQUET, SAVED, TEXT, Format
from dtlib.errors import BadInput, counted, did_you_mean

SUFFIXES = {".parquet": PARQUET, ".jsonl": LINES, ".ndjson": LINES, ".json": LINES}
# What publishers call the three splits, as words in the names of files or as keys.
ALIASES = {
    "train": "train", "training": "train", "test": "test", "testing": "test",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
}  # fmt: skip
# Without splits of their own, of every 20 documents the 19th validates and the 20th tests. So a
# document keeps its split when others are added behind it, and an order by date or topic is spread.
EVERY = 20
DEALT = {EVERY - 2: "valid", EVERY - 1: "test"}
NUMBERS = {"valid": "19th", "test": "20th"}


Parts = Mapping[str, tuple[Path, ...]]


@dataclass(frozen=True)
class Documents:
    """Documents that can be read again and again.

    Attributes
    ----------
    path : Path
        The file or folder that was named.
    kind : Format
        How its files are read.
    parts : dict
        The files of each split. A split that is missing is dealt from the training documents.
    column : str
        The column that holds the text.
    """

    path: Path
    kind: Format
    parts: Parts
    column: str

    @property
    def held_out(self) -> str:
        """How documents were held out, in words."""
        own = [split for split in self.parts if split != "train"]
        dealt = [f"the {NUMBERS[split]} for {split}" for split in NUMBERS if split not in own]
        said = [f"{' and '.join(own)} as published"] if own else []
        said += [f"of every {EVERY} training documents {' and '.join(dealt)}"] if dealt else []
        return "held out: " + ", ".join(said)

    def batches(self) -> Iterator[tuple[str, list[str]]]:
        """Yield (split, texts) in a fixed order; rows without text are left out.

        Raises `BadInput` for whatever cannot be read.
        """
        dealt = {turn: split for turn, split in DEALT.items() if split not in self.parts}
        for split, files in self.parts.items():
            turn = 0
            for file in files:
                for rows in self.kind.texts(file, self.column):
                    shares: dict[str, list[str]] = {}
                    for text in filter(_has_text, rows):
                        to = dealt.get(turn % EVERY, split) if split == "train" else split
                        shares.setdefault(to, []).append(text)  # type: ignore[arg-type]
                        turn += 1
                    yield from shares.items()

    def identity(self) -> str:
        """Return what changes if a file is added, removed, replaced or written to."""
        facts = [str(self.path.resolve()), self.kind.name, self.column]
        for split, sources in self.parts.items():
            for source in sources:
                for file in _files(source):
                    stat = file.stat()
                    times = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
                    facts.append(json.dumps([split, str(file.relative_to(source.parent)), *times]))
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def find(name: str, column: str | None = None) -> Documents | None:
    """Return the documents of a file or folder; None if it holds running text, or does not exist.

    Parameters
    ----------
    name : str
        A file that ends in .parquet, .jsonl, .ndjson or .json (a JSON object in each line); a
        folder that `datasets` saved; or a folder of such files, or of 20 or more .txt files, each a
        document. The files may also lie in the folder's subfolder `data`.
    column : str, optional
        The column that holds the text. By default "text", or the only column of text.

    Raises
    ------
    BadInput
        If there is no such column, a file is empty, files are of several kinds, or no file is for
        training.
    """
    path = Path(name).expanduser()
    if path.is_file():
        kind = SUFFIXES.get(path.suffix)
        parts: Parts = {"train": (path,)}
    elif (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        kind, parts = SAVED, _saved_parts(path)
    else:
        kind, parts = _in_folder(path)
    if kind is None:
        return None
    if kind is TEXT and column:
        raise BadInput(f"--text-column {column} has no effect on .txt files; leave it out.")
    return Documents(path, kind, parts, _column(path, kind, parts, column))


def _has_text(text: str | None) -> bool:
    return bool(text and not text.isspace())


def _files(source: Path) -> list[Path]:
    """Return a file, or a saved folder's files without those in which `datasets` caches maps."""
    if source.is_file():
        return [source]
    return [file for file in sorted(source.iterdir()) if not file.name.startswith("cache-")]


def _saved_parts(folder: Path) -> Parts:
    if not (folder / "dataset_dict.json").is_file():
        return {"train": (folder,)}
    try:
        names = json.loads((folder / "dataset_dict.json").read_text())["splits"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{folder / 'dataset_dict.json'} is damaged: save the data again."
        ) from error
    parts = {ALIASES[name]: (folder / name,) for name in names if name in ALIASES}
    return _with_training(folder, parts, f"the splits {', '.join(names)}")


def _in_folder(folder: Path) -> tuple[Format | None, Parts]:
    """Return what the files of a folder are, and to which splits they belong by their names."""
    for place in (folder, folder / "data"):
        files = [f for f in sorted(place.glob("*")) if f.is_file() and f.name[0] not in "._"]
        suffixes = Counter(f.suffix for f in files if f.suffix in (*SUFFIXES, ".txt"))
        if set(suffixes) - {".json"}:  # .json often describes the other files
            del suffixes[".json"]
        if set(suffixes) == {".txt"}:
            texts = tuple(f for f in files if f.suffix == ".txt")
            running = len(texts) < EVERY or "train.txt" in {f.name for f in texts}
            return None if running else TEXT, {"train": texts}
        if suffixes:
            break
    else:
        return None, {}
    if len(suffixes) > 1:
        there = " and ".join(f"{counted(n, f'{suffix} file')}" for suffix, n in suffixes.items())
        raise BadInput(f"{place} has {there}: give a folder with files of one kind, or one file.")
    chosen = [f for f in files if f.suffix in suffixes]
    return SUFFIXES[chosen[0].suffix], _by_name(place, chosen)


def _by_name(folder: Path, files: list[Path]) -> Parts:
    parts: dict[str, tuple[Path, ...]] = {}
    for file in files:
        words = [ALIASES[w] for w in re.split(r"[^a-z]+", file.stem.lower()) if w in ALIASES]
        to = words[0] if words else ""
        parts[to] = (*parts.get(to, ()), file)
    if list(parts) == [""]:
        return {"train": parts[""]}
    if "" in parts:
        raise BadInput(
            f"{folder} has files named after splits, and {parts[''][0].name}, whose name says no "
            "split: put train, validation or test into every name, or into none."
        )
    return _with_training(folder, parts, ", ".join(f.name for f in files[:5]))


def _with_training(folder: Path, parts: Parts, there: str) -> Parts:
    if "train" not in parts:
        raise BadInput(f"{folder} has {there}, but nothing called train; name one of them train.")
    return {split: parts[split] for split in SPLITS if split in parts}


def _column(path: Path, kind: Format, parts: Parts, wanted: str | None) -> str:
    """Return the column that every file has as text, or refuse the first file without it."""
    chosen = wanted
    for files in parts.values():
        for file in files:
            there = kind.columns(file)
            texts = [name for name, type_ in there.items() if type_ == "string"]
            if chosen is None:
                chosen = "text" if "text" in texts or len(texts) != 1 else texts[0]
            if chosen not in texts:
                raise BadInput(_no_column(file, there, texts, chosen))
    assert chosen is not None, path
    return chosen


def _no_column(file: Path, there: Mapping[str, str], texts: list[str], chosen: str) -> str:
    columns = ", ".join(f"{name} ({type_})" for name, type_ in there.items()) or "none"
    if chosen in there:
        wrong = f"the column {chosen!r} of {file} is {there[chosen]}, not text"
    else:
        wrong = f"{file} has no column {chosen!r}"
    fits = " or ".join(f"--text-column {name}" for name in texts[:4])
    remedy = f"use {fits}" if fits else "none of them holds text"
    return f"{wrong}; its columns are {columns}: {remedy}.{did_you_mean(chosen, texts)}"
