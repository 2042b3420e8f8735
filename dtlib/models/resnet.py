"""ResNet-18 for 32×32 pictures (He et al. 2016, arXiv:1512.03385), full or narrow.

The stem is the one for CIFAR: a 3×3 convolution with stride 1 and no max-pool, so that a 32×32
picture keeps its size through the first stage.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.errors import BadInput, did_you_mean
from dtlib.models import drawn_from

NORMS = ("batch", "group")
CHANNELS_PER_GROUP = 8


def make_norm(norm: str, channels: int) -> nn.Module:
    """Return the normalisation layer: over the batch, or over groups of eight channels.

    Batch norm looks at the micro-batch, so its result depends on how a batch is split over ranks;
    group norm (Wu and He 2018, arXiv:1803.08494) looks at one picture at a time and does not.
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(channels // CHANNELS_PER_GROUP, channels)


def conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Conv2d:
    # No bias: the norm that follows has one.
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class Block(nn.Module):
    """Two 3×3 convolutions and the shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, outputs, 3, stride), make_norm(norm, outputs)
        self.conv2, self.norm2 = conv(outputs, outputs, 3, 1), make_norm(norm, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                conv(inputs, outputs, 1, stride), make_norm(norm, outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Four stages of two blocks; each stage after the first halves the side and doubles the width.

    `forward` takes pictures [b, 3, 32, 32] and returns logits [b, classes].
    """

    def __init__(self, width: int, norm: str, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, 3, 1), make_norm(norm, width), nn.ReLU())
        blocks: list[nn.Module] = []
        inputs = width
        for stage in range(4):
            outputs = width * 2**stage
            blocks.append(Block(inputs, outputs, 1 if stage == 0 else 2, norm))
            blocks.append(Block(outputs, outputs, 1, norm))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def resnet18(width: int = 64, norm: str = "batch", classes: int = 10, *, seed: int = 0) -> ResNet:
    """Build a ResNet-18 whose weights depend only on `seed`.

    Parameters
    ----------
    width : int
        Channels of the first stage, a multiple of 8. 64 is the full model: 11,173,962 parameters
        with ten classes. 16 is the narrow one for a laptop: 701,466.
    norm : "batch" or "group"
        Batch norm, or group norm with eight channels per group (same number of parameters).
    classes : int
        Number of logits.
    seed : int
        Seed of the initialisation (He et al. 2015, arXiv:1502.01852, fan out).

    Returns
    -------
    ResNet
        In fp32; `.double()` gives fp64.

    Raises
    ------
    BadInput
        If `norm` is unknown or `width` is not a positive multiple of 8.
    """
    if norm not in NORMS:
        hint = did_you_mean(norm, NORMS)
        raise BadInput(f"norm {norm!r} is unknown: choose {' or '.join(NORMS)}.{hint}")
    if width < CHANNELS_PER_GROUP or width % CHANNELS_PER_GROUP:
        raise BadInput(f"width {width} must be a positive multiple of {CHANNELS_PER_GROUP}.")
    with drawn_from(seed):
        model = ResNet(width, norm, classes)
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(model.head.weight, std=0.01)
        nn.init.zeros_(model.head.bias)
    return model
