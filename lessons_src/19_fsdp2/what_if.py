"""What `fully_shard` makes whole and gathers in a step, when each block is a unit.

Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
arXiv:2304.11277. In elements; `group` is `reshard_after_forward`: 0 for True, 1 for False, or the
number of ranks that share a block between its forward and its backward. Numbers only: runs in a
page.
"""

GROUPS = (0, 8, 1)  # reshard_after_forward=True, 8, False
SHARD = 16  # bytes a parameter in fp32 with AdamW: 4 + 4 + 8
OUTSIDE = 0.02  # the part of all parameters that lies outside the blocks


def reshard(billions, blocks, ranks_power, after, low):
    """Memory of a rank and bytes that it sends, for the sliders of a what-if.

    Parameters
    ----------
    billions
        Ψ in 10⁹; 2 % of them are outside the blocks.
    blocks
        How many; 1 is one call on the root.
    ranks_power
        N is 8 times 2 to this power.
    after
        `reshard_after_forward`: 0 True, 1 eight ranks, 2 False.
    low
        1: gathered in bf16 and reduced in fp32; 0: all in fp32.

    Returns
    -------
    dict
        `curves` of GB (10⁹ bytes) over ranks, `point` (both kinds at N), and `says`.
    """
    psi, size = billions * 1e9, 2 if low else 4
    root = OUTSIDE * psi if blocks > 1 else 0
    shape = (root, (psi - root) / blocks, blocks)
    whole = whole_weights(*shape, GROUPS[after]) * size / 1e9
    curves: dict = {"shards": [], "shards and whole weights": []}
    for power in range(8):
        shards = SHARD * psi / (8 * 2**power) / 1e9
        curves["shards"].append([8 * 2**power, shards])
        curves["shards and whole weights"].append([8 * 2**power, shards + whole])
    ranks = 8 * 2**ranks_power
    both = curves["shards and whole weights"][ranks_power][1]
    gathers = gathered(*shape, ranks, GROUPS[after]) * size / 1e9
    reduces = psi * (ranks - 1) / ranks * 4 / 1e9
    return {
        "curves": curves,
        "point": [ranks, both],
        "x": "ranks N",
        "y": "GB on a rank",
        "log_x": True,
        "says": f"Simulated: on {ranks} ranks a rank holds {both - whole:.3g} GB of shards and at "
        + f"most {whole:.3g} GB of whole weights: {both:.3g} GB, without activations and "
        + "without the buffers of the block and the gradients that are on their way. "
        + f"It sends {gathers:.3g} GB for gathers and {reduces:.3g} GB for "
        + f"gradients in a micro-batch: {(gathers + reduces) / 50:.3g} s at 50 GB/s.",
    }


def whole_weights(root, block, blocks, group):
    """Elements that are whole at once on a rank, at most, beside its shards.

    Parameters
    ----------
    root
        Elements outside all blocks; they stay whole from forward to backward.
    block, blocks
        Elements of one block, and how many blocks there are.
    group
        `reshard_after_forward`, see above. A block that is shared by a group leaves 1/group of
        itself on each rank.
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
