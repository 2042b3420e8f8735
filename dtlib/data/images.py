"""A set of pictures, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ImageData:
    """Pictures in memory.

    Attributes
    ----------
    pixels : Tensor
        uint8 [n, 3, 32, 32], on the CPU.
    labels : Tensor
        int64 [n].
    classes : tuple of str
        The name of each label.
    mean, std : tuple of three floats
        Mean and deviation of each channel over the training pictures, on the scale 0 to 1.
    source : str
        Where the pictures came from, for a record.
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    source: str

    def __len__(self) -> int:
        return len(self.labels)
