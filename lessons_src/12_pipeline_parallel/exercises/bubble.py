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


def last_of_each_rank(spans):
    """Each rank's work is overwritten by its next computation, and not added up."""
    ranks, step, _ = parts(spans)
    work = sum({rank: end - start for rank, start, end in spans}.values())
    return (ranks * step - work) / work


def until_a_rank_ends(spans, rank):
    """The step ends with the last computation of one rank: -1 is the last rank."""
    ranks, _, busy = parts(spans)
    return (ranks * first_and_last(spans, rank % ranks)[1] - sum(busy)) / sum(busy)


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
    # The first tells almost all mistakes apart: nothing starts at 0, no rank is like another, and
    # the list is not in the order of time. The others have another number of ranks.
    cases=[
        (
            "3 ranks: 0 from 2 to 4 and 7 to 9, 1 from 4 to 6 and 12 to 15, 2 from 5 to 7",
            ([(0, 7, 9), (1, 4, 6), (1, 12, 15), (2, 5, 7), (0, 2, 4)],),
        ),
        ("2 ranks: rank 0 from 0 to 3, rank 1 from 1 to 6", ([(0, 0, 3), (1, 1, 6)],)),
        ("1 rank that computes from 0 to 3 and from 9 to 10", ([(0, 0, 3), (0, 9, 10)],)),
    ],
    mistakes=[
        ("of_the_whole", {f"{IDLE} / busy": f"{IDLE} / (ranks * step)"}),
        ("not_divided", {f"{IDLE} / busy": IDLE}),
        ("one_too_many", {IDLE: "ranks * step"}),
        ("busy_share", {f"{IDLE} / busy": "busy / (ranks * step)"}),
        ("upside_down", {f"{IDLE} / busy": f"busy / {IDLE}"}),
        ("one_step", {"ranks * step": "step"}),
        ("one_rank_less", {RANKS: "max(rank for"}),
        ("one_rank_more", {RANKS: "2 + max(rank for"}),
        ("papers_formula", papers_formula),
        ("four_ranks", {f"{RANKS} rank, start, end in spans)": "4"}),
        ("two_ranks", {f"{RANKS} rank, start, end in spans)": "2"}),
        ("nobody", nobody_computes),
        ("each_line_a_rank", {f"{RANKS} rank, start, end in spans)": "len(spans)"}),
        ("first_start", {"ranks * step": "ranks * (step - min(start for _, start, _ in spans))"}),
        ("overwritten", last_of_each_rank),
        ("end_of_last_rank", lambda spans: until_a_rank_ends(spans, -1)),
        ("end_of_rank_0", lambda spans: until_a_rank_ends(spans, 0)),
        ("computations", {"sum(end - start for": "sum(1 for"}),
        ("last_listed", {"max(end for rank, start, end in spans)": "spans[-1][2]"}),
        (
            "earliest_end",
            {"max(end for rank, start, end in spans)": "min(end for _, _, end in spans)"},
        ),
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
