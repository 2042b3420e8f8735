"""Computing and sending of one tensor-parallel block. Numbers only: runs in a page."""

from dtlib.sim.collectives import ring_all_reduce_time
from dtlib.sim.flops import gpt_step

SPEED, NVLINK = 400e12, 450.0  # FLOP/s that a GPU reaches; GB/s inside a node
INSIDE, BETWEEN = 5e-6, 15e-6  # seconds of latency of a message
SEQUENCE = 2048


def all_reduce_s(size, ranks, gpus, network):
    """Seconds of an all-reduce, in two levels if the ranks are on several nodes.

    Lesson 07's model of a node: each GPU has a link to its neighbours and a network adapter of its
    own. Reduce-scatter inside each node, all-reduce the pieces between nodes, all-gather inside.

    Parameters
    ----------
    size
        Bytes of the tensor.
    ranks, gpus
        N, and how many GPUs are in a node; a multiple of it, or less.
    network
        GB/s that a GPU sends between nodes.
    """
    local = min(ranks, gpus)
    inside = ring_all_reduce_time(size, local, INSIDE, 1 / NVLINK / 1e9)
    between = ring_all_reduce_time(size / local, ranks // local, BETWEEN, 1 / network / 1e9)
    return inside + between


def block_ms(width, tokens, ranks, gpus, network):
    """Milliseconds that a block computes and sends in bf16, forward and backward.

    Parameters
    ----------
    width, tokens
        h, and the tokens of a micro-batch, in sequences of 2048.
    ranks, gpus, network
        As in `all_reduce_s`.
    """
    operations, _ = gpt_step(tokens, SEQUENCE, 1, width, 0)
    size = 2 * tokens * width  # s·b·h elements in bf16; f and g add them up four times
    return (
        1000 * operations / ranks / SPEED,
        1000 * 4 * all_reduce_s(size, ranks, gpus, network),
    )


def inside_a_node(width, tokens, ranks_power, gpus, network):
    """Milliseconds of computing and sending over ranks, for the sliders of a what-if.

    `tokens`, `ranks_power` and `gpus` are exponents of 2.
    """
    curves: dict = {"computing": [], "sending": []}
    for power in range(1, 7):
        computing, sending = block_ms(width, 2**tokens, 2**power, 2**gpus, network)
        curves["computing"].append([2**power, computing])
        curves["sending"].append([2**power, sending])
    ranks = 2**ranks_power
    computing, sending = block_ms(width, 2**tokens, ranks, 2**gpus, network)
    nodes = -(-ranks // 2**gpus)
    return {
        "curves": curves,
        "point": [ranks, sending],
        "x": "ranks N",
        "y": "ms for a block",
        "log_x": True,
        "says": f"Simulated: on {ranks} ranks in {nodes} node{'s' if nodes > 1 else ''} a block of "
        + f"width {width} computes for {computing:.3g} ms and sends for {sending:.3g} ms: "
        + f"{100 * sending / (sending + computing):.0f} % of the time is sending.",
    }
