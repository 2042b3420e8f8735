"""Running text from local files: WikiText-2, Tiny Shakespeare, or any .txt files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dtlib.data.fetch.sources import SOURCES
from dtlib.data.formats import read_text
from dtlib.data.places import find
from dtlib.errors import BadInput

SPLITS = ("train", "valid", "test")
# Files of the three splits, in the layouts in which WikiText is published.
LAYOUTS = (
    tuple(f"wiki.{split}.raw" for split in SPLITS),
    tuple(f"wiki.{split}.tokens" for split in SPLITS),
    tuple(f"{split}.txt" for split in SPLITS),
)
NAMES = ("wikitext2", "shakespeare")
SHAKESPEARE = ("tinyshakespeare.txt", "shakespeare.txt", "input.txt")
KINDS = (
    "give UTF-8 text (.txt), parquet, JSON lines (.jsonl), a folder of such files, or a folder that"
    " datasets saved"
)
# A text without splits of its own: the first 90 % train, the next 5 % validate, the last 5 % test.
CUTS = (0.90, 0.95)


@dataclass(frozen=True)
class Corpus:
    """The text of the three splits, what it is, and where it came from."""

    name: str
    train: str
    valid: str
    test: str
    source: str


def load(name_or_folder: str) -> Corpus:
    """Read "wikitext2" or "shakespeare" (see `dtlib.data.places.roots`), a .txt file or a folder.

    A folder is read as WikiText if it has the files of WikiText's three splits, as splits if it has
    train.txt, valid.txt and test.txt, and otherwise as all its .txt files in the order of their
    names, joined and cut at 90 % and 95 % of the characters. Raises `BadInput` if the files are
    missing, empty, or not UTF-8 text.
    """
    if name_or_folder == "wikitext2":
        return _from_layout(_wikitext(), "wikitext2")
    if name_or_folder == "shakespeare":
        return _from_files([_shakespeare()], "shakespeare")
    folder = Path(name_or_folder).expanduser()
    if folder.is_file() and folder.suffix == ".txt":
        return _from_files([folder], folder.stem)
    if folder.is_file():
        raise BadInput(f"{folder} is no data file: {KINDS}.")
    if not folder.is_dir():
        raise BadInput(f"there is no data folder or file {folder}: {KINDS}.")
    if _layout(folder):
        return _from_layout(folder, folder.name)
    present = [f"{split}.txt" for split in SPLITS if (folder / f"{split}.txt").is_file()]
    if "train.txt" in present:
        raise BadInput(
            f"{folder} has {' and '.join(present)} but not all of train.txt, valid.txt and "
            "test.txt: add what is missing, or give the files other names."
        )
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise BadInput(f"{folder} has no .txt files and no documents: {KINDS}.")
    return _from_files(files, folder.name)


def _layout(folder: Path) -> tuple[str, ...] | None:
    """Return the names of the three files of the first layout that a folder has completely."""
    for names in LAYOUTS:
        if all((folder / name).is_file() for name in names):
            return names
    return None


def _wikitext() -> Path:
    return find(
        "wikitext2",
        (SOURCES["wikitext2"].folder, "wikitext-2", "wikitext2", ""),  # what was fetched first
        lambda folder: _layout(folder) is not None,
        "run `dtlib fetch wikitext2`, or give the folder that contains wiki.train.raw, "
        "wiki.valid.raw and wiki.test.raw",
    )


def _shakespeare() -> Path:
    def inside(folder: Path) -> list[Path]:
        return [folder / name for name in SHAKESPEARE if (folder / name).is_file()]

    folder = find(
        "shakespeare",
        ("", SOURCES["shakespeare"].folder),
        lambda folder: bool(inside(folder)),
        "run `dtlib fetch shakespeare`, or give a folder that contains only its file",
    )
    return inside(folder)[0]


def _from_layout(folder: Path, name: str) -> Corpus:
    files = _layout(folder)
    assert files is not None
    train, valid, test = (read_text(folder / file) for file in files)
    # The word-level edition replaces rare words, so its perplexities are not those of the raw text.
    if "<unk>" in train:
        name = f"{name}, word level (rare words are <unk>)"
    elif files == LAYOUTS[0]:
        name = f"{name}, raw"
    return Corpus(name, train, valid, test, source=f"{', '.join(files)} in {folder}")


def _from_files(files: list[Path], name: str) -> Corpus:
    text = "\n".join(read_text(file) for file in files)
    first, second = (int(len(text) * cut) for cut in CUTS)
    what = files[0].name if len(files) == 1 else f"{len(files)} .txt files"
    return Corpus(
        name=f"{name}, cut at 90 % and 95 %",
        train=text[:first],
        valid=text[first:second],
        test=text[second:],
        source=f"{what} in {files[0].parent}",
    )
