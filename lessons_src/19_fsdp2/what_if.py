"""What FSDP2 holds and sends, over the number of ranks. Numbers only: runs in a page."""

from dtlib.sim.fsdp import gathered, whole_weights

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
