"""More answers to `share_of_peak`, for the tests alone."""

from ..exercises.launches import share_of_peak


def idle_added(kernels, launch, peak, bandwidth):
    """Adds up what the GPU waits for, kernel by kernel."""
    clock = idle = busy = 0.0
    for index, (flop, size) in enumerate(kernels, start=1):
        wait = max(0.0, index * launch - clock)
        takes = max(flop / peak, size / bandwidth)
        idle, busy, clock = idle + wait, busy + takes, clock + wait + takes
    return sum(flop for flop, _ in kernels) / peak / (idle + busy)


def from_the_end(kernels, launch, peak, bandwidth):
    """The step is as long as the longest way: launches up to a kernel, then all from it on."""
    takes = [max(flop / peak, size / bandwidth) for flop, size in kernels]
    ends = [(k + 1) * launch + sum(takes[k:]) for k in range(len(takes))]
    return sum(flop for flop, _ in kernels) / (peak * max(ends))


def eats(kernels, launch, peak, bandwidth):
    share = share_of_peak(kernels, launch, peak, bandwidth)
    kernels.clear()
    return share


def only_bound_by_arithmetic(kernels, launch, peak, bandwidth):
    work = sum(flop for flop, size in kernels if flop / peak > size / bandwidth)
    return work / sum(flop for flop, _ in kernels) * share_of_peak(kernels, launch, peak, bandwidth)


ALSO_WRONG = [
    ("negative", lambda *step: -share_of_peak(*step)),
    ("nothing", only_bound_by_arithmetic),
    ("nothing", lambda *step: share_of_peak(*step) // 1),
    ("above_one", lambda *step: 1.7 + share_of_peak(*step)),
    ("rounded", lambda *step: round(share_of_peak(*step), 4)),
    ("unrecognised", lambda *step: 0.9 * share_of_peak(*step)),
    ("changed", eats),
]
ALSO_RIGHT = [idle_added, from_the_end]
LADDER = (
    """def share_of_peak(kernels, launch, peak, bandwidth):
    launched = done = work = 0.0
    for flop, size in kernels:
        launched += launch
        done = max(done, launched) + flop / peak
        work += flop
    return work / (done * peak)
""",
    """def share_of_peak(kernels, launch, peak, bandwidth):
    at = 0.0
    for k, (flop, size) in enumerate(kernels):
        at = max(at, (k + 1) * launch) + flop / peak
    return sum(flop for flop, size in kernels) / at / peak
""",
)
