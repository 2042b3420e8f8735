"""`share_of_peak`: the MFU of a step whose kernels wait for launches, arithmetic or memory."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import short
from dtlib.learn.readers import number, told_apart
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

PEAK, BANDWIDTH = 1e12, 1e11  # FLOP/s and bytes/s: 10⁹ FLOP and 10⁸ bytes take 1 ms each
# ms of arithmetic and of memory; three of them only move bytes
NINE = [(1, 0.5), (0, 3), (5, 1), (0, 2), (1, 1), (0.5, 0.25), (0, 0.5), (4, 6), (0.5, 0.5)]
QUEUE = "max(done, launched) +"  # words of the solution
LIMIT = "max(flop / peak, size / bandwidth)"
BEGIN, LAUNCHED = "launched = done = work = 0.0", "launched += launch"
TIMELY = "work / (done * peak)"

share_of_peak = solution("share_of_peak", globals())


def case(words, kernels, launch_ms, peak=PEAK, bandwidth=BANDWIDTH):
    """A case: kernels as (ms of arithmetic, ms of memory), one launched each `launch_ms`."""
    made = [(flop * peak / 1e3, size * bandwidth / 1e3) for flop, size in kernels]
    label = f"{words}, {launch_ms:g} ms a launch"
    return label, (made, launch_ms / 1e3, peak, bandwidth)


def one_limit(kernels, launch, peak, bandwidth):
    """A mistake: the slowest of launches, arithmetic and memory, each over the whole step."""
    work, moved = (sum(part) for part in zip(*kernels, strict=True))
    return work / (max(len(kernels) * launch, work / peak, moved / bandwidth) * peak)


def busy_share(kernels, launch, peak, bandwidth):
    """A mistake: the share of the time in which a kernel runs, as `nvidia-smi` shows it."""
    busy = sum(max(flop / peak, size / bandwidth) for flop, size in kernels)
    work = sum(flop for flop, _ in kernels)
    return busy * peak * share_of_peak(kernels, launch, peak, bandwidth) / work


def serial_share(kernels, launch, peak, bandwidth):
    """The same, of a step in which each kernel takes at least as long as a launch."""
    takes = [max(flop / peak, size / bandwidth) for flop, size in kernels]
    return sum(takes) / sum(max(launch, one) for one in takes)


def all_launches(kernels, launch, peak, bandwidth):
    """A mistake: the longer of all launches and all kernels."""
    busy = sum(max(flop / peak, size / bandwidth) for flop, size in kernels)
    return sum(flop for flop, _ in kernels) / (max(len(kernels) * launch, busy) * peak)


def short_queue(kernels, launch, peak, bandwidth):
    """A mistake: the CPU launches the next kernel only after the GPU has begun this one."""
    launched = begun = done = work = 0.0
    for flop, size in kernels:
        launched = max(launched, begun) + launch
        begun = max(done, launched)
        done = begun + max(flop / peak, size / bandwidth)
        work += flop
    return work / (done * peak)


def mean_of_shares(kernels, launch, peak, bandwidth):
    """A mistake: the mean of the kernels' own shares, however long each takes."""
    shares = [flop / peak / max(launch, flop / peak, size / bandwidth) for flop, size in kernels]
    return sum(shares) / len(shares)


def read(got):
    """Read a share, which is above 0."""
    share = number(got)
    if share <= 0:
        raise Wrong("negative" if share else "nothing", got=short(share))
    return share


def passed(got, want):
    """Compare the shares of the longest case."""
    row = ("a step of nine kernels", round(100 * got[-1], 1), round(100 * want[-1], 1), "%")
    return Passed((row,))


EXERCISE = Answer(
    share_of_peak,
    read=read,
    changed="changed",
    # Each case adds one thing: memory, arithmetic, a launch, a second kernel, a queue, its end.
    cases=[
        case("one kernel of 1 ms of arithmetic and 5 ms of memory", [(1, 5)], 0),
        case("one kernel of 3 ms of arithmetic and 2 ms of memory", [(3, 2)], 0),
        case("one kernel of 3 ms of arithmetic", [(3, 0.5)], 2),
        case("two kernels, of 3 ms of arithmetic and of 5 ms of memory", [(3, 1), (1, 5)], 0),
        case("three kernels of 1 ms", [(1, 1), (1, 1), (1, 1)], 3),
        case("one kernel of 8 ms, then three of 1 ms", [(8, 1), (1, 1), (1, 1), (1, 1)], 2),
        case("three kernels of 1 ms, then one of 8 ms", [(1, 1), (1, 1), (1, 1), (8, 1)], 2),
        case("nine kernels, of which three only move bytes", NINE, 1.5),
        case("nine kernels on a GPU of twice the peak and bandwidth", NINE, 1.5, 2e12, 2e11),
    ],
    mistakes=[
        ("arithmetic_only", {LIMIT: "flop / peak"}),
        ("memory_only", {LIMIT: "size / bandwidth"}),
        ("added", {LIMIT: "flop / peak + size / bandwidth"}),
        ("shorter", {LIMIT: "min(flop / peak, size / bandwidth)"}),
        ("no_launch", {LAUNCHED: "pass"}),
        ("no_queue", {QUEUE: "done + launch +"}),
        ("no_queue", {QUEUE: "max(done, done + launch) +"}),
        ("longest_of_both", {f"{QUEUE} {LIMIT}": f"done + max(launch, {LIMIT})"}),
        ("one_launch", {QUEUE: "max(done, launch) +"}),
        ("short_queue", short_queue),
        ("skipped", {LAUNCHED: f"if not flop:\n            continue\n        {LAUNCHED}"}),
        ("skipped", {LAUNCHED: f"{LAUNCHED}\n        if not flop:\n            continue"}),
        ("first_alone", lambda kernels, *rest: share_of_peak(kernels[:1], *rest)),
        ("exchanged", lambda kernels, *rest: share_of_peak([one[::-1] for one in kernels], *rest)),
        ("one_limit", one_limit),
        ("all_launches", all_launches),
        ("busy_share", busy_share),
        ("busy_share", serial_share),
        ("mean_of_shares", mean_of_shares),
        ("first_free", {BEGIN: "launched, done, work = -launch, 0.0, 0.0"}),
        ("per_cent", {TIMELY: "100 * work / (done * peak)"}),
        ("fixed", lambda kernels, launch, peak, bandwidth: (
            share_of_peak(kernels, launch, PEAK, bandwidth))),
        ("fixed", lambda kernels, launch, peak, bandwidth: (
            share_of_peak(kernels, launch, peak, BANDWIDTH))),
        ("fixed", {TIMELY: "work / (done * 1e12)"}),
        Mistake("rounded", {TIMELY: f"round({TIMELY}, 2)"},
                when=lambda got, want: got in [round(want, digits) for digits in range(9)]),
        ("lost", {TIMELY: f"1 - {TIMELY}"}),
        ("seconds", {TIMELY: "done"}),
        ("in_flop", {TIMELY: "work / done"}),
        ("upside_down", {TIMELY: "done * peak / work"}),
        ("three_times", {TIMELY: "3 * work / (done * peak)"}),
        Mistake("above_one", when=lambda got: got > 1),
    ],
    other="unrecognised",
    facts=lambda got, want, kernels, launch: {
        **dict(zip(("got", "want"), told_apart(got, want), strict=True)),
        "n": len(kernels), "ms": f"{1e3 * launch:g}",
    },
    passed=passed,
)  # fmt: skip
