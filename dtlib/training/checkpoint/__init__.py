"""Checkpoints that stay usable whenever a crash happens.

A checkpoint is a folder `step-00000020` with `shared.pt` (model, optimizer, position: what all
ranks have in common, written by rank 0 alone), one `rank{r}.pt` for each rank (its random number
states, its shards) and `complete.json`, which lists every file with its size and hash. It is
written under a temporary name in the same place: every file is flushed to the disk, the marker is
written last, and one rename publishes the folder, so that a reader sees all of it or nothing.

Files hold only tensors and plain Python values, so `torch.load` reads them with
`weights_only=True`, which runs no code from the file.
"""

from dtlib.training.checkpoint.checkpointer import Checkpointer, Progress
from dtlib.training.checkpoint.checkpoints import Checkpoints

__all__ = ["Checkpointer", "Checkpoints", "Progress"]
