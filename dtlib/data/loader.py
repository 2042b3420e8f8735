"""The DataLoader path: for pictures that do not fit on the training device.

It gives bit for bit the same pictures as `DeviceImages`, one sample at a time in worker processes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import psutil
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dtlib.data.batches import (
    Augmentation,
    DeviceImages,
    Normalise,
    Plan,
    crop_and_flip,
    seed_of,
    to_device,
)
from dtlib.data.images import ImageData
from dtlib.errors import BadInput

Key = tuple[int, tuple[int, int, bool] | None]  # index of a picture; row, column, flip


def free_bytes(device: torch.device) -> int:
    """Return the memory of `device` that is free now, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return psutil.virtual_memory().available


def fits(data: ImageData, device: torch.device | str, *, free: int | None = None) -> bool:
    """Return whether the pixels and labels take at most half of the device's free memory.

    The other half is for the model. On the CPU the data is in memory already, so it always fits.
    """
    device = torch.device(device)
    if device.type == "cpu" and free is None:
        return True
    needed = data.pixels.numel() + 8 * len(data)
    return 2 * needed <= (free_bytes(device) if free is None else free)


def worker_seed(seed: int, rank: int, epoch: int, worker: int) -> int:
    """Return the seed of a loader's worker process; no two (rank, epoch, worker) share one."""
    return seed_of("worker", seed, rank, epoch, worker)


def seed_worker(worker: int, *, seed: int, rank: int, epoch: int) -> None:
    """Seed Python's, NumPy's and torch's generators in a worker (a `worker_init_fn`).

    By default workers are seeded from torch's global generator. If that has the same seed on all
    ranks, so that their models are equal, the workers of every rank draw the same numbers.
    """
    value = worker_seed(seed, rank, epoch, worker)
    random.seed(value)
    np.random.seed(value % 2**32)
    torch.manual_seed(value)


class _Samples(Dataset[tuple[Tensor, Tensor]]):
    """One picture per key: cropped and flipped here, in the worker, as uint8."""

    def __init__(self, data: ImageData) -> None:
        self.data = data

    def __getitem__(self, key: Key) -> tuple[Tensor, Tensor]:
        index, change = key
        pixels = self.data.pixels[index : index + 1]
        if change is not None:
            row, column, flip = change
            one = Augmentation(torch.tensor([[row, column]]), torch.tensor([flip]))
            pixels = crop_and_flip(pixels, one)
        return pixels[0], self.data.labels[index]


def _keys(plan: Plan) -> Iterator[list[Key]]:
    for indices, augmentation in plan:
        if augmentation is None:
            yield [(index, None) for index in indices.tolist()]
            continue
        rows, columns = augmentation.offsets.unbind(1)
        changes = zip(rows.tolist(), columns.tolist(), augmentation.flips.tolist(), strict=True)
        yield list(zip(indices.tolist(), changes, strict=True))


class LoaderImages:
    """Pictures that stay in the host's memory and pass through a DataLoader to a device.

    `workers` is the number of processes; 0 does the work in this one. `seed`, `rank` and the epoch
    seed them.
    """

    def __init__(
        self, data: ImageData, device: torch.device | str = "cpu", *, workers: int = 0,
        seed: int = 0, rank: int = 0,
    ) -> None:  # fmt: skip
        if workers < 0:
            raise BadInput(f"a loader cannot have {workers} workers: give 0 or more.")
        self.data, self.device, self.workers = data, torch.device(device), workers
        self.seed, self.rank = seed, rank

    def __len__(self) -> int:
        return len(self.data)

    def batches(
        self, plan: Plan, dtype: torch.dtype = torch.float32, epoch: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batch of each entry of `plan`, in order: what `DeviceImages.batches` yields."""
        normalise = Normalise(self.data, self.device, dtype)
        loader = DataLoader(
            _Samples(self.data),
            batch_sampler=_keys(plan),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=partial(seed_worker, seed=self.seed, rank=self.rank, epoch=epoch),
        )
        for pixels, labels in loader:
            yield normalise(to_device(pixels, self.device)), to_device(labels, self.device)


def image_source(
    data: ImageData, device: torch.device | str = "cpu", how: str = "device", *, workers: int = 0,
    seed: int = 0, rank: int = 0,
) -> DeviceImages | LoaderImages:  # fmt: skip
    """Return the pictures on the device, or behind a DataLoader on request or if they do not fit.

    Parameters
    ----------
    how : "device" or "dataloader"
        "device" becomes "dataloader" if the pictures do not fit.

    Raises
    ------
    BadInput
        If `how` is neither.
    """
    if how not in ("device", "dataloader"):
        raise BadInput(f"loader {how!r} is unknown: choose device or dataloader.")
    if how == "device" and fits(data, device):
        return DeviceImages(data, device)
    return LoaderImages(data, device, workers=workers, seed=seed, rank=rank)
