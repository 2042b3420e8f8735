"""More answers to `waited`, for the tests alone."""

from ..exercises.waiting import waited


def by_columns(begins):
    columns = list(zip(*begins, strict=True))
    return [sum(max(c) - c[r] for c in columns) for r in range(len(begins))]


def step_by_step(begins):
    totals = dict.fromkeys(range(len(begins)), 0.0)
    for column in zip(*begins, strict=True):
        for rank, own in enumerate(column):
            totals[rank] += max(column) - own
    return tuple(totals.values())


def subtracts_in_place(begins):
    for column in zip(*[list(enumerate(rank)) for rank in begins], strict=True):
        last = max(own for _, own in column)
        for rank, (k, own) in zip(begins, column, strict=True):
            rank[k] = last - own
    return [sum(rank) for rank in begins]


ALSO_WRONG = [
    ("changed", subtracts_in_place),
    ("per_collective", lambda begins: [max(c) - min(c) for c in zip(*begins, strict=True)]),
    ("length", lambda begins: [0.0, 0.0, *waited(begins)]),
    ("not_a_list", lambda begins: sum(waited(begins))),
    ("not_a_list", lambda begins: dict(enumerate(waited(begins)))),
    ("not_a_list", lambda begins: set(waited(begins))),
    ("not_numbers", lambda begins: [[seconds] for seconds in waited(begins)]),
    ("not_numbers", lambda begins: [f"{seconds} s" for seconds in waited(begins)]),
    ("rounded", lambda begins: [round(seconds, 2) for seconds in waited(begins)]),
    ("rounded", lambda begins: [round(seconds, 3) for seconds in waited(begins)]),
    ("rounded", lambda begins: [round(seconds, 6) for seconds in waited(begins)]),
    ("later", lambda begins: [s + (len(begins[0]) > 1) for s in waited(begins)]),
    ("waited", lambda begins: [sum(waited(begins))] * len(begins)),
]
ALSO_RIGHT = [by_columns, step_by_step]
