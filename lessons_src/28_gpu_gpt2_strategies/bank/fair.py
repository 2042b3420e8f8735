"""Answers to lesson 28's second exercise: pairs of rows that may be compared."""

from itertools import combinations

SETTINGS = (
    "strategy", "model", "precision", "optimizer", "world_size", "global_batch", "micro_batch",
    "max_length",
)  # fmt: skip


def differing(a, b, settings=SETTINGS):
    return {key for key in settings if a[key] != b[key] or a[key] is None}


def pairs_of(rows):
    return combinations(range(len(rows)), 2)


def fair(rows, factor, settings=SETTINGS):
    return [
        (i, j)
        for i, j in pairs_of(rows)
        if differing(rows[i], rows[j], settings) == {factor}
        and None not in (rows[i][factor], rows[j][factor])
    ]


def all_that_differ(rows, factor):
    return [(i, j) for i, j in pairs_of(rows) if rows[i][factor] != rows[j][factor]]


def precision_is_enough(rows, factor):
    return fair(rows, factor, ("strategy", "precision"))


def forgets_the_micro_batch(rows, factor):
    return fair(rows, factor, [key for key in SETTINGS if key != "micro_batch"])


def results_must_agree_too(rows, factor):
    return fair(rows, factor, list(rows[0]))


def repeats_are_fair(rows, factor):
    return [(i, j) for i, j in pairs_of(rows) if differing(rows[i], rows[j]) <= {factor}]


def nothing_equals_nothing(rows, factor):
    return [
        (i, j)
        for i, j in pairs_of(rows)
        if {key for key in SETTINGS if rows[i][key] != rows[j][key]} == {factor}
    ]


def untold_factor(rows, factor):
    found = []
    for i, j in pairs_of(rows):
        others = [key for key in SETTINGS if key != factor]
        known = all(rows[i][key] is not None for key in others)
        equal = all(rows[i][key] == rows[j][key] for key in others)
        if known and equal and rows[i][factor] != rows[j][factor]:
            found.append((i, j))
    return found


def always_strategy(rows, factor):
    return fair(rows, "strategy")


def both_orders(rows, factor):
    return [pair for i, j in fair(rows, factor) for pair in ((i, j), (j, i))]


def larger_first(rows, factor):
    return [(j, i) for i, j in fair(rows, factor)]


def with_itself(rows, factor):
    return [(i, i) for i in range(len(rows))] + fair(rows, factor)


def counts_from_one(rows, factor):
    return [(i + 1, j + 1) for i, j in fair(rows, factor)]


def places_that_are_not_there(rows, factor):
    return [(i + 5, j + 7) for i, j in fair(rows, factor)]


def says_it_twice(rows, factor):
    return fair(rows, factor) * 2


def next_row_only(rows, factor):
    return [(i, j) for i, j in fair(rows, factor) if j == i + 1]


def first_row_only(rows, factor):
    return [(i, j) for i, j in fair(rows, factor) if i == 0]


def stops_at_the_first(rows, factor):
    return fair(rows, factor)[-1:]


def the_rows_themselves(rows, factor):
    return [(rows[i], rows[j]) for i, j in fair(rows, factor)]


def places_one_by_one(rows, factor):
    return [place for pair in fair(rows, factor) for place in pair]


def how_many(rows, factor):
    return len(fair(rows, factor))


def drops_a_column(rows, factor):
    for row in rows:
        row.pop("tokens_per_s")
    return fair(rows, factor)


# Right.
def as_a_set(rows, factor):
    return set(fair(rows, factor))


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


WRONG = [
    ("fair_pairs", "confounded", all_that_differ),
    ("fair_pairs", "confounder_left", precision_is_enough),
    ("fair_pairs", "results_too", results_must_agree_too),
    ("fair_pairs", "repeats", repeats_are_fair),
    ("fair_pairs", "unknown_equal", nothing_equals_nothing),
    ("fair_pairs", "factor_unknown", untold_factor),
    ("fair_pairs", "other_factor", always_strategy),
    ("fair_pairs", "both_ways", both_orders),
    ("fair_pairs", "backwards", larger_first),
    ("fair_pairs", "itself", with_itself),
    ("fair_pairs", "from_one", counts_from_one),
    ("fair_pairs", "outside", places_that_are_not_there),
    ("fair_pairs", "twice", says_it_twice),
    ("fair_pairs", "neighbours", next_row_only),
    ("fair_pairs", "with_first", first_row_only),
    ("fair_pairs", "lost", stops_at_the_first),
    ("fair_pairs", "not_places", the_rows_themselves),
    ("fair_pairs", "not_pairs", places_one_by_one),
    ("fair_pairs", "not_a_list", how_many),
    ("fair_pairs", "mutates", drops_a_column),
]
ALSO_WRONG = [("fair_pairs", "confounder_left", forgets_the_micro_batch)]
RIGHT = [("fair_pairs", as_a_set), ("fair_pairs", by_loops)]
