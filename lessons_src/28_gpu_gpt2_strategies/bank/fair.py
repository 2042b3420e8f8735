"""More answers to `fair_pairs`, for the tests alone."""

from ..exercises.fair import SETTINGS, fair_pairs


def drops_a_column(rows, factor):
    for row in rows:
        row.pop("tokens_per_s")
    return fair_pairs(rows, factor)


def looks_at_two(rows, factor):
    keys = ("strategy", "precision")
    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))]
    return [
        (i, j)
        for i, j in pairs
        if None not in (rows[i]["precision"], rows[j]["precision"])
        and [key for key in keys if rows[i][key] != rows[j][key]] == [factor]
    ]


def by_loops(rows, factor):
    found = []
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            a, b = rows[i], rows[j]
            if None in [a[key] for key in SETTINGS] + [b[key] for key in SETTINGS]:
                continue
            if a[factor] == b[factor]:
                continue
            if all(a[key] == b[key] for key in SETTINGS if key != factor):
                found.append([i, j])
    return found


ALSO_WRONG = [
    ("factor_unknown", {"for row in (a, b)": "for row in (b,)"}),
    ("confounder_left", looks_at_two),
    ("not_places", lambda rows, f: [(rows[i], rows[j]) for i, j in fair_pairs(rows, f)]),
    ("not_pairs",
     lambda rows, factor: [place for pair in fair_pairs(rows, factor) for place in pair]),
    ("not_a_list", lambda rows, factor: len(fair_pairs(rows, factor))),
    ("mutates", drops_a_column),
]  # fmt: skip
ALSO_RIGHT = [lambda rows, factor: set(fair_pairs(rows, factor)), by_loops]
