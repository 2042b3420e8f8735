"""Ring or tree: what an all-reduce takes over the number of ranks. Numbers only: runs in a page."""

from dtlib.sim.collectives import crossover, ring_all_reduce_time, tree_all_reduce_time


def ring_or_tree(ranks, size_power, microseconds, gigabytes_per_second):
    """Compare a ring with a tree, for the sliders of a what-if.

    Parameters
    ----------
    ranks
        N, 2 or more.
    size_power
        Power of ten of the tensor's size in bytes: 6 is 1 MB.
    microseconds
        α, latency of a message.
    gigabytes_per_second
        1/β, 1 GB = 10⁹ bytes.

    Returns
    -------
    dict
        `curves` of milliseconds over ranks, `point` (the faster one at N), and `says`.
    """
    alpha, beta, size = microseconds * 1e-6, 1e-9 / gigabytes_per_second, 10**size_power
    counts = sorted({2**k for k in range(1, 11)} | {ranks})
    curves: dict = {"ring": [], "tree": []}
    for n in counts:
        curves["ring"].append([n, ring_all_reduce_time(size, n, alpha, beta) * 1e3])
        curves["tree"].append([n, tree_all_reduce_time(size, n, alpha, beta) * 1e3])
    ring = ring_all_reduce_time(size, ranks, alpha, beta) * 1e3
    tree = tree_all_reduce_time(size, ranks, alpha, beta) * 1e3
    winner = (
        "ring and tree tie" if ring == tree else f"the {'ring' if ring < tree else 'tree'} wins"
    )
    edge = _bytes(crossover(ranks, alpha, beta))
    return {
        "curves": curves,
        "point": [ranks, min(ring, tree)],
        "x": "ranks N",
        "y": "ms",
        "log_x": True,
        "says": f"Simulated: {winner} at N = {ranks} and {_bytes(size)}: ring {ring:.4g} ms, "
        + f"tree {tree:.4g} ms. From {edge} on the ring wins.",
    }


def _bytes(size):
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} bytes"
