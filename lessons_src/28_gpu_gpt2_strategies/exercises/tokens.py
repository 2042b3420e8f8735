"""Exercise 28.4: tokens a second of timed steps, without warm-up and padding."""

import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

PADDING = -100
MEDIAN, BOTH = "statistics.median(rates)", "total, total / ranks"  # words of the solution


def steps(*each, warmup=0, ranks):
    """Arguments: steps from (seconds, tokens in each window), one window on each of `ranks`."""
    return [(seconds, [[7] * tokens] * ranks) for seconds, tokens in each], ranks, warmup


def divided(of_counts, of_seconds):
    """A mistake: one number from all counts, over one number from all seconds."""

    def program(steps, ranks, warmup):
        counts = [sum(x != PADDING for window in labels for x in window) for _, labels in steps]
        total = of_counts(counts[warmup:]) / of_seconds([s for s, _ in steps[warmup:]])
        return total, total / ranks

    return program


def passed(got, want):
    """Compare both rates in the case with padding."""
    rows = zip(("of all ranks", "of one rank"), got[4], want[4], strict=True)
    return Passed(tuple((what, f"{a:g}", f"{b:g}", "tokens/s") for what, a, b in rows))


tokens_per_second = solution("tokens_per_second", globals())

EXERCISE = Answer(
    tokens_per_second,
    read=several(2, "two"),
    cases=[
        ("one step of 2 s with 8 tokens, 1 rank", steps((2.0, 8), ranks=1)),
        ("one step of 2 s with 3 windows of 8 tokens, 3 ranks", steps((2.0, 8), ranks=3)),
        ("one step of 3 s with 8 tokens, 1 rank", steps((3.0, 8), ranks=1)),
        (
            "a first step of 40 s, then one of 2 s, 12 tokens each, 3 ranks",
            steps((40.0, 4), (2.0, 4), ranks=3, warmup=1),
        ),
        (
            "one step of 2 s with 4 windows of 8 that hold 2, 3, 1 and 4 tokens, 4 ranks",
            ([(2.0, [[5] * k + [PADDING] * (8 - k) for k in (2, 3, 1, 4)])], 4, 0),
        ),
        (
            "one step of 2 s with 6 windows of 8 tokens, 2 ranks",
            ([(2.0, [[7] * 8] * 6)], 2, 0),
        ),
        (
            "one step of 2 s with 2 windows of 6 labels (0, 1, 2, 0, 1, 2), 2 ranks",
            ([(2.0, [[0, 1, 2, 0, 1, 2]] * 2)], 2, 0),
        ),
        (
            "2 steps of warm-up, then steps of 1, 1, 8, 2 and 1 s with 15 tokens each, 3 ranks",
            steps(*((s, 5) for s in (30.0, 5.0, 1.0, 1.0, 8.0, 2.0, 1.0)), ranks=3, warmup=2),
        ),
        (
            "steps of 2, 4, 1, 1 and 2 s with 20, 96, 12, 16 and 12 tokens, 4 ranks",
            steps((2.0, 5), (4.0, 24), (1.0, 3), (1.0, 4), (2.0, 3), ranks=4),
        ),
        (
            "four steps of 1, 2, 4 and 8 s with 16 tokens each, 2 ranks",
            steps(*((s, 8) for s in (1.0, 2.0, 4.0, 8.0)), ranks=2),
        ),
    ],
    mistakes=[
        ("each_is_all", {BOTH: "total, total"}),
        ("each", {BOTH: "total, total * ranks"}),
        ("per_window", {BOTH: "total, total / len(steps[0][1])"}),
        ("swapped", {BOTH: "total / ranks, total"}),
        ("times_ranks", {BOTH: "total * ranks, total"}),
        ("upside_down", {BOTH: "1 / total, ranks / total"}),
        ("padding", {"label != -100": "True"}),
        ("label_0", {"label != -100": "label > 0"}),
        ("one_window", {"in labels for": "in labels[:1] * len(labels) for"}),
        ("windows", {"sum(label != -100 for window in labels for label in window)": "len(labels)"}),
        ("rounded", {"count / seconds": "count // seconds"}),
        ("warm_up", {"[warmup:]": ""}),
        ("warm_up", lambda steps, ranks, warmup: divided(sum, sum)(steps, ranks, 0)),
        ("mean", {MEDIAN: "statistics.mean(rates)"}),
        ("sums", divided(sum, sum)),
        ("fastest", {MEDIAN: "max(rates)"}),
        ("one_step", {MEDIAN: "rates[-1]"}),
        ("one_step", {MEDIAN: "rates[0]"}),
        ("half_the_middle", {MEDIAN: "statistics.median_low(rates)"}),
        ("half_the_middle", {MEDIAN: "statistics.median_high(rates)"}),
        ("medians_apart", divided(statistics.median, statistics.median)),
    ],
    facts=lambda got, ranks: {"got": f"{got[0]:.4g}", "each": f"{got[1]:.4g}", "n": ranks},
    changed="mutates",
    passed=passed,
)
