"""Pictures: a ResNet-18 that classifies them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from dtlib.config.values import DEFAULTS
from dtlib.data import check_images, open_images
from dtlib.data.batches import Augmentation, DeviceImages, augmentation
from dtlib.data.loader import image_source
from dtlib.models.resnet import resnet18
from dtlib.sim import shapes
from dtlib.training.tasks.base import Batch, Share, Task

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.dist import World

EVALUATION_BATCH = 250  # divides 2,000 and 10,000, and is small enough for any device


class Images(Task):
    """Pictures [b, 3, 32, 32] to logits [b, classes]; the summary has test loss and accuracy."""

    sample = "pictures"
    unit = "images/s"
    metric = "test_accuracy"
    held_out_loss = "test_loss"

    def __init__(self, config: RunConfig, world: World) -> None:
        super().__init__(config, world)
        assert config.data is not None and config.model is not None
        seed, rank = config.seed, world.rank
        self.train = open_images(config.data, "train", count=config.num_samples, seed=seed)
        self.test = DeviceImages(open_images(config.data, "test", seed=seed), world.device)
        self.source = image_source(
            self.train, world.device, config.loader, workers=config.workers, seed=seed, rank=rank
        )
        self.train_size = len(self.train)
        width = config.width or shapes.RESNET[config.model]
        self.model = resnet18(width, config.norm, len(self.train.classes), seed=seed)
        self.layout = torch.channels_last if config.channels_last else torch.contiguous_format
        self.model = self.model.to(memory_format=self.layout)

    @classmethod
    def check_data(cls, config: RunConfig) -> int:
        return check_images(config.data or DEFAULTS["images"]["data"], config.num_samples)

    def train_batches(self, shares: Iterable[Share]) -> Iterator[Batch]:
        for pixels, labels in self.source.batches(self._cut(shares), self.dtype):
            yield pixels.to(memory_format=self.layout), labels

    def _cut(self, shares: Iterable[Share]) -> Iterator[tuple[torch.Tensor, Augmentation | None]]:
        for share in shares:
            # drawn for the global batch, then cut: the number of ranks changes no picture
            changes = augmentation(len(share.indices), self.config.seed, share.step)
            for part in share.parts:
                yield share.indices[part], changes.rows(part) if self.config.augment else None

    def evaluation_batches(self) -> int:
        return -(-len(self.test) // EVALUATION_BATCH)

    def evaluation_batch(self, number: int) -> Batch:
        first = number * EVALUATION_BATCH
        last = min(first + EVALUATION_BATCH, len(self.test))
        pixels, labels = self.test.batch(torch.arange(first, last), None, self.dtype)
        return pixels.to(memory_format=self.layout), labels

    def figures(self, loss: float, accuracy: float) -> dict[str, Any]:
        return {"test_loss": loss, "test_accuracy": accuracy, "test_samples": len(self.test)}

    def extras(self) -> dict[str, Any]:
        if not self.config.baseline:
            return {}
        train = DeviceImages(self.train, self.world.device)
        return {"linear_test_accuracy": linear_accuracy(train, self.test)}


def linear_accuracy(train: DeviceImages, test: DeviceImages, epochs: int = 10) -> float:
    """Return the test accuracy of a linear model on the pixels, as a baseline for the network.

    It is a softmax regression, fitted with AdamW in `epochs` passes with a rate that falls to 0.
    """
    count, batch = len(train), 256
    torch.manual_seed(0)
    model = torch.nn.Linear(3 * 32 * 32, len(train.data.classes), device=train.device)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    total = epochs * -(-count // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1e-3 * (1 - step / total))
    for _ in range(epochs):
        for indices in torch.randperm(count).split(batch):
            pixels, labels = train.batch(indices)
            F.cross_entropy(model(pixels.flatten(1)), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    with torch.inference_mode():
        pixels, labels = test.batch(torch.arange(len(test)))
        return (model(pixels.flatten(1)).argmax(1) == labels).double().mean().item()


TASK = Images
