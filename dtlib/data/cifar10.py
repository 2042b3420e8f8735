"""CIFAR-10 from its binary archive (Krizhevsky 2009): records of one label and 3072 pixel bytes.

It reads the binary layout and not the Python one, which is a pickle and runs code when read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from dtlib.data.fetch.sources import SOURCES
from dtlib.data.images import ImageData
from dtlib.data.places import find
from dtlib.errors import BadInput, counted

FOLDER = SOURCES["cifar10"].folder
ARCHIVE = SOURCES["cifar10"].downloads[0].urls[0]
RECORD_BYTES = 1 + 3 * 32 * 32
FILES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Of the 50,000 training pictures, each channel on the scale 0 to 1.
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)


def locate(name_or_folder: str) -> Path:
    """Return the folder with the binary files: the one named, the one below it, or one looked up.

    Raises `BadInput` if it does not exist; the message says where dtlib looked for it and how to
    get it.
    """
    if name_or_folder == "cifar10":
        remedy = f"run `dtlib fetch cifar10`, or give the folder that contains {FOLDER}"
        return find("cifar10", ("", FOLDER, f"cifar10/{FOLDER}", "cifar10"), _has_files, remedy)
    folder = Path(name_or_folder).expanduser()
    if not folder.is_dir():
        raise BadInput(
            f"there is no data folder {folder}: give the one that contains {FOLDER}, unpacked from "
            f"{ARCHIVE}."
        )
    return folder / FOLDER if (folder / FOLDER).is_dir() else folder


def check(name_or_folder: str, split: str, count: int | None = None) -> int:
    """Return how many pictures a split has, after refusing what `load` would refuse.

    Raises `BadInput` as `load` does. Only the label of each picture is read.
    """
    return sum(map(len, _files(name_or_folder, split, count)))


def _files(name_or_folder: str, split: str, count: int | None) -> list[np.ndarray]:
    """Return the records of each file of a split; raises `BadInput` as `load` does."""
    folder = locate(name_or_folder)
    files = [_records(folder / name) for name in FILES[split]]
    there = sum(map(len, files))
    if there < (1 if count is None else count):
        raise BadInput(
            f"{folder} has {counted(there, f'{split} picture')}, fewer than the {count or 1} "
            "requested: request fewer, or get the whole archive."
        )
    return files


def _has_files(folder: Path) -> bool:
    return any((folder / name).is_file() for names in FILES.values() for name in names)


def load(name_or_folder: str, split: str, count: int | None = None) -> ImageData:
    """Read the first `count` pictures of a split (default: all), in the archive's order.

    They come from "cifar10", the folder `cifar-10-batches-bin`, or the folder above it. There are
    50,000 pictures in "train" and 10,000 in "test"; an archive with fewer records per file is read
    as it is. Raises `BadInput` if a file is missing, is not a whole number of records, or has a
    label above 9, or if the archive has fewer than `count` pictures.
    """
    records = np.concatenate(_files(name_or_folder, split, count))[:count]
    return ImageData(
        pixels=torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()),
        labels=torch.from_numpy(records[:, 0].astype(np.int64)),
        classes=CLASSES,
        mean=MEAN,
        std=STD,
        source=f"CIFAR-10 {split}, {len(records)} pictures from {locate(name_or_folder)}",
    )


def _records(path: Path) -> np.ndarray:
    """Return the records of one file, uint8 [n, 3073], which stay on disk until they are read.

    Raises `BadInput` as `load` does.
    """
    if not path.is_file():
        raise BadInput(f"{path.parent} has no {path.name}: unpack the whole of {ARCHIVE} there.")
    size = path.stat().st_size
    if size % RECORD_BYTES:
        raise BadInput(
            f"{path} has {size} bytes, which is not a whole number of records of "
            f"{RECORD_BYTES}: it is cut off or another file, so unpack {ARCHIVE} again."
        )
    if size == 0:  # an empty file cannot be mapped
        return np.zeros((0, RECORD_BYTES), np.uint8)
    records = np.memmap(path, np.uint8, mode="r").reshape(-1, RECORD_BYTES)
    if records[:, 0].max() >= len(CLASSES):
        raise BadInput(
            f"{path} has the label {records[:, 0].max()}, but CIFAR-10 has labels 0 to 9: "
            f"it is another file, so unpack {ARCHIVE} again."
        )
    return records
