"""How much of the gradients' communication hides behind backward. Numbers only: runs in a page.

Gradients get ready at an even pace while backward runs, and leave in buckets, one behind the
other, each for the time of a ring all-reduce. What is still on its way when backward ends is
exposed: the optimizer waits for it.

S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13
(2020) 3005-3018, sections 3.2.2 and 3.2.3.
"""

import math

from dtlib.sim.collectives import ring_all_reduce_time


def bucket_sizes(size, cap):
    """Bytes of each bucket when `size` bytes of small gradients are cut at `cap` bytes."""
    count = max(1, math.ceil(size / cap))
    return [min(cap, size - k * cap) for k in range(count)]


def timeline(size, cap, ranks, alpha, beta, backward):
    """When each bucket is full, leaves, and arrives, in seconds from the start of backward.

    Parameters
    ----------
    size, cap
        Bytes of all gradients, and of a bucket.
    ranks, alpha, beta
        N, seconds per message, seconds per byte.
    backward
        Seconds that backward takes.

    Returns
    -------
    list of tuple
        `(ready, leaves, arrives)` of each bucket.
    """
    rows, full, free = [], 0.0, 0.0
    for part in bucket_sizes(size, cap):
        full += part
        ready = backward * full / size
        leaves = max(ready, free)
        free = leaves + ring_all_reduce_time(part, ranks, alpha, beta)
        rows.append((ready, leaves, free))
    return rows


def exposed(size, cap, ranks, alpha, beta, backward):
    """Seconds that the optimizer waits after backward, when buckets leave as they get full."""
    return timeline(size, cap, ranks, alpha, beta, backward)[-1][2] - backward


def waiting(size, cap, ranks, alpha, beta):
    """Seconds that it waits when all buckets leave after backward."""
    return sum(ring_all_reduce_time(part, ranks, alpha, beta) for part in bucket_sizes(size, cap))


def exposed_curve(bucket_power, gradients, microseconds, gigabytes_per_second, backward_ms):
    """Exposed communication over the size of a bucket on 8 ranks, for the sliders of a what-if.

    Parameters
    ----------
    bucket_power
        Power of ten of a bucket's bytes: 7 is 10 MB.
    gradients
        MB (10⁶ bytes) of all gradients.
    microseconds
        α, latency of a message.
    gigabytes_per_second
        1/β, 1 GB = 10⁹ bytes.
    backward_ms
        Milliseconds of backward.

    Returns
    -------
    dict
        `curves` of milliseconds over MB, `point` (overlapped, at this size) and `says`.
    """
    ranks, alpha, beta = 8, microseconds * 1e-6, 1e-9 / gigabytes_per_second
    size, backward, cap = gradients * 1e6, backward_ms * 1e-3, 10**bucket_power
    curves: dict = {"overlapped": [], "waiting at the end": []}
    for quarter in range(20, 37):
        at = 10 ** (quarter / 4)
        late = exposed(size, at, ranks, alpha, beta, backward) * 1e3
        curves["overlapped"].append([at / 1e6, late])
        all_of_it = waiting(size, at, ranks, alpha, beta) * 1e3
        curves["waiting at the end"].append([at / 1e6, all_of_it])
    late = exposed(size, cap, ranks, alpha, beta, backward) * 1e3
    whole = waiting(size, cap, ranks, alpha, beta) * 1e3
    count = len(bucket_sizes(size, cap))
    return {
        "curves": curves,
        "point": [cap / 1e6, late],
        "x": "bucket, MB",
        "y": "exposed, ms",
        "log_x": True,
        "says": f"Simulated, 8 ranks: {count} bucket{'s' * (count > 1)} of up to "
        + f"{cap / 1e6:.3g} MB, {whole:.3g} ms of communication, of which {late:.3g} ms are "
        + f"exposed and {100 * (1 - late / whole):.0f} % hidden.",
    }
