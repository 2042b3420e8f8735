"""Checkpoints that a crash at any moment leaves usable.

A checkpoint is a folder `step-00000020` with `shared.pt` (model, optimizer, position: what all
ranks have in common, written by rank 0 alone), one `rank{r}.pt` for each rank (its random number
states, its shards) and `complete.json`, which names every file with its size and hash. It is made
under a temporary name in the same place, every file is forced to the disk, the marker comes last,
and one rename publishes it: a reader sees all of it or nothing.

Files hold tensors and plain Python values alone, so `torch.load` reads them with
`weights_only=True`, which runs no code from the file.
"""

from dtlib.training.checkpoint.checkpointer import Checkpointer, Progress
from dtlib.training.checkpoint.checkpoints import Checkpoints

__all__ = ["Checkpointer", "Checkpoints", "Progress"]
