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
    """N - 1 over the micro-batches, of which all ranks together run two computations each."""
    n = 1 + max(rank for rank, _, _ in spans)
    return (n - 1) / (len(spans) / n / 2)


def from_the_first_start(spans):
    busy = sum(e - s for _, s, e in spans)
    step = max(e for _, _, e in spans) - min(s for _, s, _ in spans)
    return (len({r for r, _, _ in spans}) * step - busy) / busy


def until_rank_0_ends(spans):
    busy = sum(e - s for _, s, e in spans)
    step = max(e for r, _, e in spans if r == 0)
    return (len({r for r, _, _ in spans}) * step - busy) / busy


def until_the_last_rank_ends(spans):
    n = len({r for r, _, _ in spans})
    busy = sum(e - s for _, s, e in spans)
    return (n * max(e for r, _, e in spans if r == n - 1) - busy) / busy


def overwrites(spans):
    busy = {}
    for rank, start, end in spans:
        busy[rank] = end - start
    step = max(end for _, _, end in spans)
    return (len(busy) * step - sum(busy.values())) / sum(busy.values())


def counts_lines(spans):
    busy = sum(e - s for _, s, e in spans)
    return (len(spans) * max(e for _, _, e in spans) - busy) / busy


def until_each_start(spans):
    """Adds up the ends without the lengths, which are the starts."""
    return sum(e - (e - s) for _, s, e in spans) / sum(e - s for _, s, e in spans)


ALSO_WRONG = [
    ("first_start", from_the_first_start),
    ("end_of_rank_0", until_rank_0_ends),
    ("end_of_last_rank", until_the_last_rank_ends),
    ("overwritten", overwrites),
    ("each_line_a_rank", counts_lines),
    ("other", until_each_start),
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
