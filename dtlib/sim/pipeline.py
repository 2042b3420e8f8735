"""What a pipeline's schedule costs: idle time, kept activations, messages. Plain functions.

N ranks, M micro-batches, v stages ("chunks") on each rank. For one micro-batch a rank needs F
seconds for forward, B for the gradient of its input and W for the gradient of its weights, all its
stages together. Messages take no time here.

Y. Huang et al., "GPipe", arXiv:1811.06965, section 2.3; D. Narayanan et al., "Efficient Large-Scale
Language Model Training on GPU Clusters", arXiv:2104.04473, section 2.2; P. Qi et al., "Zero Bubble
Pipeline Parallelism", arXiv:2401.10241, section 2.3.
"""

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1")


def bubble(schedule, ranks, micro_batches, forward=1, backward=1, weight=1, chunks=1):
    """Idle time as a share of the time in which a rank computes.

    Narayanan et al. count it like this; GPipe's paper divides by the whole time instead.

    Parameters
    ----------
    schedule
        One of `SCHEDULES`.
    ranks, micro_batches
        N and M. ZB-H1's formula holds for M ≥ N, the interleaved one where N divides M.
    forward, backward, weight
        F, B and W, in any unit. ZB-H1's formula holds while no W is longer than an F or a B.
    chunks
        v; 1 for all but the interleaved schedule.
    """
    if schedule == "zb-h1":
        idle = (ranks - 1) * (forward + backward - weight)
    else:
        idle = (ranks - 1) * (forward + backward + weight) / chunks
    return idle / (micro_batches * (forward + backward + weight))


def kept_activations(schedule, rank, ranks, micro_batches, chunks=1):
    """The most micro-batches whose activations a rank keeps at once.

    The unit is one micro-batch in all stages of the rank; ZB-H1 is counted up to the weight
    gradient. Parameters as in `bubble`.
    """
    if schedule == "gpipe":
        return micro_batches
    if schedule == "zb-h1":
        return min(micro_batches, ranks)
    if schedule == "1f1b":
        return min(micro_batches, ranks - rank)
    warm_up = 2 * (ranks - 1 - rank) + (chunks - 1) * ranks
    return min(micro_batches * chunks, warm_up + 1) / chunks


def messages(rank, ranks, micro_batches, chunks=1):
    """Messages that a rank sends in a step, each as large as a micro-batch between two stages.

    The output of every stage but the last goes on, and the gradient of every stage's input but the
    first one's goes back.
    """
    if ranks == 1:
        return 0
    ends = (rank == 0) + (rank == ranks - 1)
    return micro_batches * (2 * chunks - ends)
