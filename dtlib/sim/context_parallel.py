"""Context parallelism: who holds and computes which part of a sequence, and what it sends.

N ranks hold s/N positions each. Ring attention passes keys and values on from rank to rank;
Ulysses exchanges positions for heads before attention, and back afterwards.

H. Liu, M. Zaharia, P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
Context", arXiv:2310.01889, section 3; S. Jacobs et al., "DeepSpeed Ulysses", arXiv:2309.14509,
section 3. Llama 3, arXiv:2407.21783, section 3.3.2, cuts the sequence into 2N chunks, two for each
rank, as zig-zag does here. Plain functions on numbers. Symbols: b micro-batch, s sequence, a heads,
d size of a head, N ranks.
"""

from dtlib.sim.traffic import collective

KINDS = ("ring", "zigzag", "ulysses")


def chunks(rank, ranks, zigzag):
    """Which chunks of the sequence a rank holds, in this order.

    One of N, or, with zig-zag, two of 2N: an early one, whose positions see little, and a late one.
    """
    return (rank, 2 * ranks - 1 - rank) if zigzag else (rank,)


def computed(rank, holder, ranks, zigzag):
    """Pairs (query chunk, key chunk) that a rank computes with the keys of `holder`.

    A later chunk of keys is hidden from all queries of a chunk, so that nothing is computed. Where
    both are the same chunk, half of the scores are masked.
    """
    keys = chunks(holder, ranks, zigzag)
    return [(q, k) for q in chunks(rank, ranks, zigzag) for k in keys if k <= q]


def ring_steps(ranks, zigzag):
    """Ring attention step by step, as a picture shows it.

    Returns
    -------
    list
        For each of the N steps, a list with `(holder, pairs)` of each rank: whose keys and values
        the rank holds in this step, and the pairs (query chunk, key chunk) that it computes.
    """
    return [
        [((r - t) % ranks, computed(r, (r - t) % ranks, ranks, zigzag)) for r in range(ranks)]
        for t in range(ranks)
    ]


def scores(sequence, rank, ranks, zigzag):
    """Scores (query times key) that a rank computes for one head, masked ones included.

    Without zig-zag rank r computes r + 1 squares of s/N by s/N. With it each computes 2N + 1
    squares of s/2N by s/2N.
    """
    if zigzag:
        return (2 * ranks + 1) * (sequence // (2 * ranks)) ** 2
    return (rank + 1) * (sequence // ranks) ** 2


def scores_of_slowest(sequence, ranks, zigzag):
    """Scores on the way of the slowest rank of each step, summed over the N steps, for one head.

    All ranks wait for the slowest before keys and values move on. Without zig-zag, some rank
    computes a whole square in every step, so that skipping hidden ones saves no time.
    """
    if zigzag:
        return scores(sequence, 0, ranks, zigzag)
    return ranks * (sequence // ranks) ** 2


def ring_traffic(batch, sequence, kv_heads, head_size, ranks, size, gradient_size=None, layers=1):
    """What a rank sends for forward and backward, in the rows of `dtlib.sim.traffic`.

    Keys and values take N-1 steps in forward, and again in backward; their gradients take N, since
    they also go home. With or without zig-zag it is the same.

    Parameters
    ----------
    size, gradient_size
        Bytes of an element of keys and values, and of their gradients (default: the same).
    """
    elements = 2 * batch * kv_heads * head_size * sequence // ranks
    back = gradient_size or size
    moves = (ranks - 1) * layers
    home = ranks * layers if ranks > 1 else 0
    return [
        collective("send", "keys and values, forward", elements, ranks, size, moves),
        collective("send", "keys and values, backward", elements, ranks, size, moves),
        collective("send", "their gradients", elements, ranks, back, home),
    ]


def ring_messages(ranks, layers=1):
    """Messages that a rank sends for forward and backward: 2(N-1) + N a layer, for N > 1."""
    return (3 * ranks - 2) * layers if ranks > 1 else 0


def ulysses_traffic(batch, sequence, heads, kv_heads, head_size, ranks, size, layers=1):
    """What a rank sends for forward and backward, in the rows of `dtlib.sim.traffic`.

    Four all-to-alls forward (queries, keys, values, output), and four back with their gradients.
    """
    each = batch * head_size * sequence // ranks
    return [
        collective("all_to_all", "queries and output", each * heads, ranks, size, 4 * layers),
        collective("all_to_all", "keys and values", each * kv_heads, ranks, size, 4 * layers),
    ]
