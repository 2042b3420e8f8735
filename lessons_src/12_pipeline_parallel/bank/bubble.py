"""More answers to `idle_share`, for the tests alone."""

from ..exercises.bubble import idle_share


def by_rank(spans):
    """Adds up what each rank waits."""
    step = max(end for _, _, end in spans)
    busy = {}
    for rank, start, end in spans:
        busy[rank] = busy.get(rank, 0) + end - start
    return sum(step - one for one in busy.values()) / sum(busy.values())


def by_ratio(spans):
    ends = [end for _, _, end in spans]
    ranks = len({rank for rank, _, _ in spans})
    return ranks * max(ends) / sum(e - s for _, s, e in spans) - 1


def formula(spans):
    """N - 1 over the micro-batches, counted by rank 0's computations."""
    n = 1 + max(rank for rank, _, _ in spans)
    return (n - 1) / (len([rank for rank, _, _ in spans if rank == 0]) / 2)


ALSO_WRONG = [
    (
        "papers_formula",
        lambda spans: (
            (len({rank for rank, _, _ in spans}) - 1)
            * 2
            * len({rank for rank, _, _ in spans})
            / len(spans)
        ),
    ),
    ("four_ranks", {"1 + max(rank for rank, start, end in spans)": "2 * 2"}),
    ("papers_formula", formula),
    ("other", lambda spans: 7.0),
    ("other", lambda spans: -idle_share(spans)),
    ("none", lambda spans: print(idle_share(spans))),
    ("kind", lambda spans: str(idle_share(spans))),
    ("raised", lambda spans: idle_share([]) or spans),
    ("rounded", lambda spans: round(idle_share(spans), 2)),
]
ALSO_RIGHT = [by_rank, by_ratio]
LADDER = (
    "def idle_share(spans):\n    ranks = 1 + max(rank for rank, start, end in spans)\n"
    "    step = max(end for rank, start, end in spans)\n"
    "    busy = sum(end - start for rank, start, end in spans)\n"
    "    return (ranks * step - busy) / (ranks * step)",
    "def idle_share(spans):\n    n = len({rank for rank, start, end in spans})\n"
    "    all_of_it = n * max(end for rank, start, end in spans)\n"
    "    return 1 - sum(end - start for rank, start, end in spans) / all_of_it",
)
