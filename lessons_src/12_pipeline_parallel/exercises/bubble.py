"""Exercise 12.1: the idle share, from the times of a schedule."""

import itertools

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution

idle_share = solution("idle_share", globals())

IDLE, RANKS = "(ranks * step - busy)", "1 + max(rank for"


def parts(spans):
    """Ranks, length of the step, and computing time of each rank."""
    ranks = 1 + max(rank for rank, start, end in spans)
    busy = [sum(e - s for r, s, e in spans if r == rank) for rank in range(ranks)]
    return ranks, max(end for rank, start, end in spans), busy


def first_and_last(spans, rank):
    """When a rank's first computation starts, and when its last one ends."""
    own = [(start, end) for r, start, end in spans if r == rank]
    return min(start for start, end in own), max(end for start, end in own)


def until_its_own_end(spans):
    ranks, _, busy = parts(spans)
    ends = sum(first_and_last(spans, rank)[1] for rank in range(ranks))
    return (ends - sum(busy)) / sum(busy)


def from_its_own_start(spans):
    ranks, step, busy = parts(spans)
    starts = sum(first_and_last(spans, rank)[0] for rank in range(ranks))
    return (ranks * step - starts - sum(busy)) / sum(busy)


def gaps_alone(spans):
    ranks, _, busy = parts(spans)
    lengths = [first_and_last(spans, rank) for rank in range(ranks)]
    return (sum(end - start for start, end in lengths) - sum(busy)) / sum(busy)


def of_one_rank(spans, rank=0):
    _, step, busy = parts(spans)
    return (step - busy[rank]) / busy[rank]


def worst_rank(spans):
    return max(of_one_rank(spans, rank) for rank in range(parts(spans)[0]))


def mean_of_ranks(spans):
    ranks = parts(spans)[0]
    return sum(of_one_rank(spans, rank) for rank in range(ranks)) / ranks


def papers_formula(spans):
    """(N - 1)/M, which knows nothing of gaps; a micro-batch is two computations on each rank."""
    ranks = parts(spans)[0]
    return (ranks - 1) / (len(spans) / (2 * ranks))


def nobody_computes(spans):
    """The time in which no rank computes."""
    _, step, busy = parts(spans)
    edges = sorted({0, step, *(edge for _, *both in spans for edge in both)})
    gaps = [
        b - a
        for a, b in itertools.pairwise(edges)
        if not any(start <= a and b <= end for _, start, end in spans)
    ]
    return sum(gaps) / sum(busy)


def facts(spans):
    ranks, step, busy = parts(spans)
    idle, work = ranks * step - sum(busy), sum(busy)
    return {
        "n": ranks, "step": f"{step:g}", "busy": f"{work:g}", "idle": f"{idle:g}",
        "all": f"{ranks * step:g}", "lines": len(spans),
    }  # fmt: skip


EXERCISE = Answer(
    idle_share,
    # One rank with a long gap; two at the same time, of unequal work; all of it, not in order.
    cases=[
        ("1 rank that computes from 0 to 3 and from 9 to 10", ([(0, 0, 3), (0, 9, 10)],)),
        ("2 ranks: rank 0 from 0 to 3, rank 1 from 1 to 6", ([(0, 0, 3), (1, 1, 6)],)),
        (
            "3 ranks: 0 from 0 to 3 and 8 to 10, 1 from 3 to 4 and 6 to 7, 2 from 4 to 6",
            ([(2, 4, 6), (0, 0, 3), (0, 8, 10), (1, 3, 4), (1, 6, 7)],),
        ),
    ],
    mistakes=[
        ("of_the_whole", {f"{IDLE} / busy": f"{IDLE} / (ranks * step)"}),
        ("not_divided", {f"{IDLE} / busy": IDLE}),
        ("one_too_many", {IDLE: "ranks * step"}),
        ("busy_share", {f"{IDLE} / busy": "busy / (ranks * step)"}),
        ("upside_down", {f"{IDLE} / busy": f"busy / {IDLE}"}),
        ("one_step", {"ranks * step": "step"}),
        ("one_rank_less", {RANKS: "max(rank for"}),
        ("papers_formula", papers_formula),
        ("four_ranks", {f"{RANKS} rank, start, end in spans)": "4"}),
        ("nobody", nobody_computes),
        ("computations", {"sum(end - start for": "sum(1 for"}),
        ("last_listed", {"max(end for rank, start, end in spans)": "spans[-1][2]"}),
        ("longest", {"sum(end - start for": "max(end - start for"}),
        ("own_end", until_its_own_end),
        ("own_start", from_its_own_start),
        ("gaps_alone", gaps_alone),
        ("rank_0", of_one_rank),
        ("worst_rank", worst_rank),
        ("mean_of_ranks", mean_of_ranks),
        ("each_step", {IDLE: "(step - busy / ranks)"}),
        ("per_cent", {f"{IDLE} / busy": f"100 * {IDLE} / busy"}),
        ("rounded_down", {f"{IDLE} / busy": f"{IDLE} // busy"}),
    ],
    facts=facts,
)
