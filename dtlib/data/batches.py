"""Which samples a step sees, and how they reach the model.

Shuffling and augmentation are drawn on the CPU for the whole global batch, from only the seed and
the epoch or step; a rank then takes its rows. So one rank and four see the same samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from dtlib.data.images import ImageData
from dtlib.errors import BadInput

PAD = 4
IGNORE = -100  # the target that torch's cross_entropy leaves out


def seed_of(*parts: int | str) -> int:
    """Mix numbers and words into one 63-bit seed: different parts give a different seed."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a device without waiting for the device's unfinished work.

    A GPU copies pinned memory by itself. On mps the copy waits: otherwise it would read the host's
    memory later, when something else may be in it.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type != "mps")


def _generator(*parts: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(*parts))


def order(n: int, seed: int, epoch: int) -> Tensor:
    """Return the order of `n` samples in an epoch: a permutation, int64 [n], on the CPU.

    Every rank computes the same order; each epoch has a different one.
    """
    return torch.randperm(n, generator=_generator("order", seed, epoch))


def split(n: int, rank: int, world_size: int) -> Tensor:
    """Return a rank's share of `n` batches for evaluation, int64: rank, rank + N, rank + 2N, …

    Nothing is padded and nothing is dropped: the shares are disjoint, their union is complete, and
    if n is less than N some are empty.

    Raises `BadInput` if there is no such rank.
    """
    if not 0 <= rank < world_size:
        raise BadInput(f"rank {rank} is not one of 0 to {world_size - 1}, the ranks of this world.")
    return torch.arange(n)[rank::world_size]


class Augmentation(NamedTuple):
    """How each of n pictures is changed: where the crop starts, and whether it is mirrored."""

    offsets: Tensor  # int64 [n, 2], row and column in the picture padded by 4: 0 to 8
    flips: Tensor  # bool [n]

    def rows(self, where: slice) -> Augmentation:
        """Return the rows of some samples: a rank's part of the global batch."""
        return Augmentation(self.offsets[where], self.flips[where])


def augmentation(count: int, seed: int, step: int) -> Augmentation:
    """Draw the crops and flips of a global batch of `count` pictures, on the CPU."""
    generator = _generator("augmentation", seed, step)
    offsets = torch.randint(0, 2 * PAD + 1, (count, 2), generator=generator)
    return Augmentation(offsets, torch.rand(count, generator=generator) < 0.5)


Plan = Iterable[tuple[Tensor, Augmentation | None]]  # for each micro-batch: indices, augmentation


def crop_and_flip(pixels: Tensor, augmentation: Augmentation) -> Tensor:
    """Pad by four black pixels, crop at the offsets, mirror where `flips` says: uint8 [b, 3, H, W].

    One gather does the whole batch: for a crop at (r, c), pixel (y, x) of a picture comes from row
    y + r and column x + c of the padded picture, or from column 31 - x + c if it is mirrored.
    """
    b, channels, height, width = pixels.shape
    device = pixels.device
    padded = F.pad(pixels, (PAD, PAD, PAD, PAD))
    row, column = augmentation.offsets.to(device).split(1, dim=1)
    x = torch.arange(width, device=device)
    x = torch.where(augmentation.flips.to(device)[:, None], width - 1 - x, x) + column
    y = torch.arange(height, device=device) + row
    index = y[:, :, None] * (width + 2 * PAD) + x[:, None, :]  # [b, H, W]
    index = index.view(b, 1, -1).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, index).view_as(pixels)


class Normalise:
    """Bring uint8 pixels to mean 0 and deviation 1 per channel, in a floating dtype."""

    def __init__(self, data: ImageData, device: torch.device, dtype: torch.dtype) -> None:
        # For half precision, round once at the end, not at each operation.
        self.compute = torch.float64 if dtype == torch.float64 else torch.float32
        self.dtype = dtype
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (data.mean, data.std))
        self.scale, self.shift = (
            v.to(device, self.compute)[:, None, None] for v in (1 / (255 * std), mean / std)
        )

    def __call__(self, pixels: Tensor) -> Tensor:
        return pixels.to(self.compute).mul_(self.scale).sub_(self.shift).to(self.dtype)


class DeviceImages:
    """Pictures that are on the training device as uint8, and are augmented there in whole batches.

    Parameters
    ----------
    data : ImageData
        Its pixels and labels are copied to `device` once, 3 KiB per picture.
    device : torch.device or str
        Where the model is.
    """

    def __init__(self, data: ImageData, device: torch.device | str = "cpu") -> None:
        self.data, self.device = data, torch.device(device)
        self.pixels, self.labels = data.pixels.to(self.device), data.labels.to(self.device)
        self._normalise: dict[torch.dtype, Normalise] = {}

    def __len__(self) -> int:
        return len(self.data)

    def batch(
        self,
        indices: Tensor,
        augmentation: Augmentation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor]:
        """Return pictures [b, 3, 32, 32] in `dtype`, normalised, and labels int64 [b].

        Parameters
        ----------
        indices : Tensor
            int64 [b], on any device.
        augmentation : Augmentation, optional
            One row per picture; without it the pictures stay as they are.
        dtype : torch.dtype
            float32, float64, float16 or bfloat16.
        """
        indices = to_device(indices, self.device)
        pixels = self.pixels.index_select(0, indices)  # copies whole pictures
        if augmentation is not None:
            there = Augmentation(*(to_device(each, self.device) for each in augmentation))
            pixels = crop_and_flip(pixels, there)
        if dtype not in self._normalise:
            self._normalise[dtype] = Normalise(self.data, self.device, dtype)
        return self._normalise[dtype](pixels), self.labels[indices]

    def batches(
        self, plan: Plan, dtype: torch.dtype = torch.float32
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batch of each entry of `plan`, in order."""
        for indices, augmentation in plan:
            yield self.batch(indices, augmentation, dtype)


class DeviceText:
    """Tokens that are on the training device, cut into windows that follow one another.

    Window i holds tokens i·s to (i+1)·s, and its targets are the tokens one position later, so that
    every token except the first is a target exactly once. The last window may be incomplete: its
    missing targets are -100, which cross_entropy leaves out.

    Parameters
    ----------
    tokens : Tensor
        Integers [n], n at least 2.
    context : int
        Length s of a window.
    device : torch.device or str
        Where the model is.
    """

    def __init__(self, tokens: Tensor, context: int, device: torch.device | str = "cpu") -> None:
        if context < 1 or len(tokens) < 2:
            raise BadInput(
                f"windows need a context of at least 1 and at least 2 tokens, not {context} and "
                f"{len(tokens)}."
            )
        self.context, self.device = context, torch.device(device)
        self.targets = len(tokens) - 1
        missing = -self.targets % context
        # The values of the padded inputs do not matter: causal attention never looks ahead.
        inputs = F.pad(tokens[:-1].to(torch.int64), (0, missing))
        targets = F.pad(tokens[1:].to(torch.int64), (0, missing), value=IGNORE)
        self._inputs = inputs.view(-1, context).to(self.device)
        self._targets = targets.view(-1, context).to(self.device)

    def __len__(self) -> int:
        """Number of windows, the incomplete one included: evaluation uses all of them."""
        return len(self._inputs)

    @property
    def complete(self) -> int:
        """Number of windows without padding: training draws from these."""
        return self.targets // self.context

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the windows `indices` [b] as inputs and targets, each int64 [b, s]."""
        indices = to_device(indices, self.device)
        return self._inputs[indices], self._targets[indices]
