"""One contestant of `bench_image_input.py`, in a process of its own: `image_contestants.py '{…}'`.

Every contestant gives batches of the same pictures: drawn at random, padded by four, cropped back
to 32×32, mirrored half of the time, normalised to float32.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from PIL import Image
from table import Stopwatch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from dtlib.data import open_images
from dtlib.data.batches import Augmentation, DeviceImages, augmentation, order
from dtlib.data.images import ImageData
from dtlib.data.loader import LoaderImages

Batches = Iterator[tuple[Tensor, Tensor]]
SEED = 0


class Pictures(Dataset):
    """As torchvision's own CIFAR10: one picture a call, through a transform."""

    def __init__(self, data: ImageData, transform, as_pil: bool) -> None:
        # PIL wants [H, W, 3]; the tensors of v2 are [3, H, W].
        self.pixels = data.pixels.permute(0, 2, 3, 1).numpy() if as_pil else data.pixels
        self.labels, self.transform, self.as_pil = data.labels.tolist(), transform, as_pil

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = Image.fromarray(self.pixels[index]) if self.as_pil else self.pixels[index]
        return self.transform(picture), self.labels[index]


def v2_transform(data: ImageData, *random: v2.Transform) -> v2.Compose:
    return v2.Compose(
        [*random, v2.ToDtype(torch.float32, scale=True), v2.Normalize(data.mean, data.std)]
    )


def classic_transform(data: ImageData, *random: torch.nn.Module) -> transforms.Compose:
    return transforms.Compose(
        [*random, transforms.ToTensor(), transforms.Normalize(data.mean, data.std)]
    )


def torchvision_batches(data: ImageData, batch: int, workers: int, *, classic: bool) -> Batches:
    """torchvision's transforms in a DataLoader, as its documentation has them."""
    kit = transforms if classic else v2
    random = (kit.RandomCrop(32, padding=4), kit.RandomHorizontalFlip())
    transform = classic_transform(data, *random) if classic else v2_transform(data, *random)
    loader = DataLoader(
        Pictures(data, transform, as_pil=classic), batch, shuffle=True, drop_last=True,
        num_workers=workers, persistent_workers=workers > 0,
    )  # fmt: skip
    return (pair for _ in itertools.count() for pair in loader)


def plan(data: ImageData, batch: int) -> Iterator[tuple[Tensor, Augmentation]]:
    """Our order and augmentation, epoch after epoch; drawing them is part of what is timed."""
    step = 0
    for epoch in itertools.count():
        for indices in order(len(data), SEED, epoch).split(batch):
            if len(indices) == batch:
                yield indices, augmentation(batch, SEED, step)
                step += 1


def device_batches(data: ImageData, batch: int, workers: int) -> Batches:
    assert workers == 0, "the device path has no workers"
    return DeviceImages(data, "cpu").batches(plan(data, batch))


def loader_batches(data: ImageData, batch: int, workers: int) -> Batches:
    return LoaderImages(data, "cpu", workers=workers).batches(plan(data, batch))


CONTESTANTS = {
    "device": device_batches,
    "loader": loader_batches,
    "v2": partial(torchvision_batches, classic=False),
    "classic": partial(torchvision_batches, classic=True),
}


def same_pixels(path: str, data: ImageData) -> float:
    """Largest difference from our device path when the crops and flips are the same."""
    indices, change = next(plan(data, min(128, len(data))))
    expected, _ = DeviceImages(data, "cpu").batch(indices, change)
    if path in ("device", "loader"):
        got, _ = next(CONTESTANTS[path](data, len(indices), 0))
        return float((got - expected).abs().max())
    as_pil = path == "classic"
    transform = classic_transform(data) if as_pil else v2_transform(data)
    pictures = Pictures(data, lambda picture: picture, as_pil)
    gap = 0.0
    for number, index in enumerate(indices.tolist()):
        top, left = change.offsets[number].tolist()
        picture = TF.crop(TF.pad(pictures[index][0], [4]), top, left, 32, 32)
        picture = TF.horizontal_flip(picture) if change.flips[number] else picture
        gap = max(gap, float((transform(picture) - expected[number]).abs().max()))
    return gap


def timed(batches: Batches, warmup: int, steps: int) -> dict[str, float]:
    """Read the clocks when the last warm-up batch is here, and when the last timed one is.

    The stream is endless, so workers prefetch as much before the first reading as before the last.
    """
    watch = Stopwatch()
    for _ in itertools.islice(batches, warmup):
        pass
    watch.read()
    for _ in itertools.islice(batches, steps):
        pass
    watch.read()
    moments = [(x.double().mean(), x.double().square().mean()) for x, _ in
               itertools.islice(batches, min(steps, 20))]  # fmt: skip
    mean, square = np.mean(moments, axis=0)
    return {"mean": mean, "std": float(np.sqrt(square - mean**2)), **watch.seconds()}


def main() -> None:
    request = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    data = open_images(request["data"], "train", count=request["count"], seed=SEED)
    path, batch = request["path"], request["batch"]
    batches = CONTESTANTS[path](data, batch, request["workers"])
    result = timed(batches, request["warmup"], request["steps"])
    result["pixel_gap"] = same_pixels(path, data)
    print(json.dumps({**result, "source": data.source}), flush=True)


if __name__ == "__main__":
    main()
