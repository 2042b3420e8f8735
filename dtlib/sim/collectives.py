"""What a collective costs in the α–β model: a message of S bytes takes α + S·β seconds.

α is the latency of one message in seconds, β the time of one byte in seconds per byte, so that
1/β is the bandwidth. Plain functions on numbers: they also run in the browser.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
MPICH", Int. J. High Perform. Comput. Appl. 19 (2005) 49-66.
"""


def ring_all_reduce_time(size, ranks, alpha, beta):
    """Seconds of a ring all-reduce: 2(N-1) steps, each of which sends one chunk of S/N bytes.

    Parameters
    ----------
    size, ranks
        S, bytes of the tensor, and N.
    alpha, beta
        Seconds per message, and per byte.
    """
    return 2 * (ranks - 1) * (alpha + size / ranks * beta)


def ring_wire_bytes(collective, size, ranks):
    """Bytes that a rank sends, on average, if a ring of `ranks` carries out a collective.

    An all-reduce sends every byte around the ring twice, other collectives once: (N-1)/N of it per
    rank. A message to one rank (`send`) counts in full; `recv` and `barrier` send nothing.

    Parameters
    ----------
    collective
        Its name in torch.distributed.
    size, ranks
        S, bytes of the whole tensor, and N.
    """
    if collective in ("recv", "barrier"):
        return 0.0
    if collective == "send":
        return float(size)
    return (2 if collective == "all_reduce" else 1) * size * (ranks - 1) / ranks
