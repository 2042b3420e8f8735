"""Trees beside rings, and the line through measured messages. Numbers only: runs in a page.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19 (2005) 49-66.
"""

import math

from dtlib.sim.collectives import ring_all_reduce_time


def rounds(ranks):
    """Rounds in which a binomial tree reaches all of `ranks` ranks: ⌈log2 N⌉."""
    return math.ceil(math.log2(ranks)) if ranks > 1 else 0


def tree_all_reduce_time(size, ranks, alpha, beta):
    """Seconds of a binomial reduce and then a broadcast: 2⌈log2 N⌉ rounds of the whole tensor."""
    return 2 * rounds(ranks) * (alpha + size * beta)


def halving_doubling_time(size, ranks, alpha, beta):
    """Seconds of recursive halving and doubling on `ranks` ranks, a power of two."""
    return 2 * rounds(ranks) * alpha + 2 * (ranks - 1) / ranks * size * beta


def two_level_time(size, nodes, gpus, inside, between):
    """Seconds of bandwidth alone: sum inside each node, then between nodes, then spread inside.

    `inside` and `between` are seconds per byte of a GPU's link in its node, and of its adapter.
    """
    halves = 2 * (gpus - 1) / gpus * size * inside
    return halves + 2 * (nodes - 1) / nodes * size / gpus * between


def crossover(ranks, alpha, beta):
    """Bytes above which the ring is faster than the tree; 0 where it always is (N = 2 and 3)."""
    steps, trips = 2 * (ranks - 1), 2 * rounds(ranks)
    if steps == trips:
        return 0.0
    return (steps - trips) * alpha / ((trips - steps / ranks) * beta)


def fit_line(sizes, seconds):
    """Fit seconds = α + β·size, each point weighted by 1/seconds² so that small sizes count.

    Parameters
    ----------
    sizes
        Bytes of each message; at least two different ones.
    seconds
        What each took, above 0.

    Returns
    -------
    tuple
        `(alpha, beta)`, neither below 0.
    """
    weights = [1 / t**2 for t in seconds]
    total = sum(weights)
    mean_s = sum(w * s for w, s in zip(weights, sizes)) / total  # noqa: B905 (MicroPython)
    mean_t = sum(w * t for w, t in zip(weights, seconds)) / total  # noqa: B905
    spread = sum(w * (s - mean_s) ** 2 for w, s in zip(weights, sizes))  # noqa: B905
    both = sum(
        w * (s - mean_s) * (t - mean_t)
        for w, s, t in zip(weights, sizes, seconds)  # noqa: B905
    )
    beta = max(0.0, both / spread)
    return max(0.0, mean_t - beta * mean_s), beta


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
