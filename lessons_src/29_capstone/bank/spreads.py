"""More answers to `efficiency_with_spread`, for the tests only."""

import statistics

from ..exercises.spreads import efficiency_with_spread


def by_ranks(kind, rows):
    single = {r["repeat"]: r["step_time_s"] for r in rows if r["strategy"] == "single"}
    found = {}
    for n in {r["ranks"] for r in rows if r["strategy"] == "ddp"}:
        each = sorted(
            single[r["repeat"]] / r["step_time_s"] / (n if kind == "strong" else 1)
            for r in rows
            if r["strategy"] == "ddp" and r["ranks"] == n and r["repeat"] in single
        )
        found[n] = [statistics.median(each), each[0], each[-1]]
    return found


def with_numpy(kind, rows):
    import numpy as np

    single = {r["repeat"]: r["step_time_s"] for r in rows if r["strategy"] != "ddp"}
    lists = {}
    for r in rows:
        if r["strategy"] == "ddp" and r["repeat"] in single:
            ideal = single[r["repeat"]] / (r["ranks"] if kind == "strong" else 1)
            lists.setdefault(r["ranks"], []).append(ideal / r["step_time_s"])
    return {n: (np.median(v), np.min(v), np.max(v)) for n, v in lists.items()}


def sorting(kind, rows):
    found = efficiency_with_spread(kind, rows)
    rows.sort(key=lambda row: row["repeat"])
    rows.pop()
    return found


ALSO_WRONG = [
    ("not_a_dict", lambda kind, rows: list(efficiency_with_spread(kind, rows).values())),
    ("not_three", lambda kind, rows: {
        n: three[0] for n, three in efficiency_with_spread(kind, rows).items()}),
    ("only_most", lambda kind, rows: dict([max(efficiency_with_spread(kind, rows).items())])),
    ("changed", sorting),
    ("other", lambda kind, rows: dict.fromkeys(
        efficiency_with_spread(kind, rows), (0.1, 0.1, 0.2))),
    ("one_repeat", {"statistics.median(values), min(values), max(values)":
                    "values[0], values[0], values[0]"}),
]  # fmt: skip
ALSO_RIGHT = [by_ranks, with_numpy]
LINES = """\
def efficiency_with_spread(kind, rows):
    one = {{r["repeat"]: r["step_time_s"] for r in rows if r["strategy"] == "single"}}
    two = {{n: [one[r["repeat"]] / r["step_time_s"] for r in rows if r["ranks"] == n
               and r["strategy"] == "ddp"] for n in {{r["ranks"] for r in rows}}}}
    return {{n: ({value}) for n, v in two.items() if v}}"""
LADDER = (
    LINES.format(value="max(v), min(v), max(v)"),
    LINES.format(value="sorted(v)[-1], sorted(v)[0], sorted(v)[-1]"),
)
