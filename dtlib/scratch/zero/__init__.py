"""ZeRO by hand: optimizer state, then gradients, then parameters, each held by one rank in N."""

from dtlib.scratch.zero.clip import clip_factor, global_norm
from dtlib.scratch.zero.optimizers import SGD, AdamW
from dtlib.scratch.zero.partition import Bucket, shard_size
from dtlib.scratch.zero.stage1 import ZeroStage1
from dtlib.scratch.zero.stage2 import ZeroStage2
from dtlib.scratch.zero.stage3 import ZeroStage3
from dtlib.scratch.zero.step import Shard, Zero
from dtlib.scratch.zero.wire import Wire

__all__ = [
    "SGD",
    "AdamW",
    "Bucket",
    "Shard",
    "Wire",
    "Zero",
    "ZeroStage1",
    "ZeroStage2",
    "ZeroStage3",
    "clip_factor",
    "global_norm",
    "shard_size",
]
