"""More answers to `efficiency`, for the tests only."""

from itertools import pairwise

from ..exercises.efficiencies import efficiency


def sorts_the_rows(kind, rows):
    rows.sort(key=lambda row: (row["ranks"], row["repeat"]))
    return efficiency(kind, rows)


def by_sorted_columns(kind, rows):
    times: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["repeat"]):
        times.setdefault(row["ranks"], []).append(row["step_time_s"])
    result = {}
    for n in sorted(times):
        share = 1 / n if kind == "strong" else 1
        both = zip(times[1], times[n], strict=True)
        result[n] = sorted(share * a / b for a, b in both)[len(times[n]) // 2]
    return result


def counts_first(kind, rows):
    counts = {row["ranks"] for row in rows}
    return {n: efficiency(kind, [r for r in rows if r["ranks"] in (1, n)])[n] for n in counts}


def against_the_previous(kind, rows):
    """The baseline is always the next smaller number of ranks."""
    times = {row["ranks"]: row["step_time_s"] for row in rows}
    counts = sorted(times)
    found = {}
    for fewer, n in pairwise(counts):
        more = n / fewer if kind == "strong" else 1
        found[n] = times[fewer] / (more * times[n])
    return efficiency(kind, rows) | found


ALSO_WRONG = [
    ("baseline", against_the_previous),
    ("rounded", lambda kind, rows: {n: round(v, 3) for n, v in efficiency(kind, rows).items()}),
    ("missing", lambda kind, rows: {n: v for n, v in efficiency(kind, rows).items() if n > 1}),
    ("not_a_dict", lambda kind, rows: list(efficiency(kind, rows).values())),
    ("changed", sorts_the_rows),
    ("efficiency", lambda kind, rows: dict.fromkeys(efficiency(kind, rows), 0.123)),
]
ALSO_RIGHT = [by_sorted_columns, counts_first]

LINES = """\
def efficiency(kind, rows):
    one = {{r["repeat"]: r["step_time_s"] for r in rows if r["ranks"] == 1}}
    return {{r["ranks"]: {value} for r in rows}}"""
LADDER = (
    LINES.format(value='one[r["repeat"]] / r["step_time_s"]'),
    LINES.format(value='1 / (r["step_time_s"] / one[r["repeat"]])'),
)
