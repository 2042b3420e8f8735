"""Data sets by name or folder: `open_images` and `open_text`."""

from __future__ import annotations

from dtlib.data import cifar10, pictures
from dtlib.data.images import ImageData
from dtlib.data.places import is_folder_name
from dtlib.data.text import TextData, check_text, open_text
from dtlib.errors import BadInput, did_you_mean

__all__ = ["ImageData", "TextData", "check_images", "check_text", "open_images", "open_text"]

IMAGES = ("pictures", "cifar10")


def open_images(
    name_or_folder: str, split: str, *, count: int | None = None, seed: int = 0
) -> ImageData:
    """Open a set of pictures.

    Parameters
    ----------
    name_or_folder : str
        "pictures" (made from `seed`), "cifar10" (looked up, see `dtlib.data.places.roots`), or the
        folder of CIFAR-10's binary archive.
    split : "train" or "test"
        Which part.
    count : int, optional
        How many pictures.
    seed : int
        For `pictures` only.

    Raises
    ------
    BadInput
        If there is no such data, folder or split.
    """
    if split not in ("train", "test"):
        raise BadInput(f"split {split!r} is unknown: pictures have train and test.")
    if name_or_folder == "pictures":
        return pictures.load(split, count, seed)
    _refuse_unknown(name_or_folder)
    return cifar10.load(name_or_folder, split, count)


def check_images(name_or_folder: str, count: int | None = None) -> int:
    """Return how many training pictures are available, reading no more than their labels.

    Raises `BadInput` as `open_images` does, for both splits; `count` is for training pictures.
    """
    if name_or_folder == "pictures":
        return count or pictures.DEFAULT_COUNT["train"]
    _refuse_unknown(name_or_folder)
    there = cifar10.check(name_or_folder, "train", count)
    cifar10.check(name_or_folder, "test")
    return count or there


def _refuse_unknown(name_or_folder: str) -> None:
    if name_or_folder == "cifar10" or is_folder_name(name_or_folder):
        return
    raise BadInput(
        f"there are no pictures or folder called {name_or_folder!r}: choose from "
        f"{', '.join(IMAGES)}, or give a folder.{did_you_mean(name_or_folder, IMAGES)}"
    )
