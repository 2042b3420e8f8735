"""What PyTorch's `fully_shard` makes whole and gathers in a step, when each block is a unit.

Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
arXiv:2304.11277. Plain functions on numbers: they also run in the browser. Everything is in
elements; `group` is `reshard_after_forward`: 0 for True, 1 for False, otherwise the number of ranks
that share a block between its forward and its backward.
"""


def whole_weights(root, block, blocks, group):
    """Elements that are whole at once on a rank, at most, beside its shards.

    Parameters
    ----------
    root
        Elements outside all blocks; they stay whole from forward to backward.
    block, blocks
        Elements of one block, and how many blocks there are.
    group
        See the module. A block that is shared by a group leaves 1/group of itself on each rank.
    """
    left = 1 / group if group else 0
    return root + block + (blocks - 1) * block * left


def gathered(root, block, blocks, ranks, group):
    """Elements that a rank sends for all gathers of a micro-batch, on rings.

    Forward gathers everything over all ranks; backward gathers the blocks once more, inside their
    group, or not at all.
    """
    again = group or ranks
    forward = (root + blocks * block) * (ranks - 1) / ranks
    return forward + blocks * block * (again - 1) / again
