"""More answers to `moves`, for the tests alone."""

from ..exercises.moves import BEGIN, END, MOVE, moves, size


# Right.
def row_by_row(rows, saved, loaded, rank):
    old, new = -(-rows // saved), -(-rows // loaded)
    found = []
    for row in range(rank * new, min(rows, (rank + 1) * new)):
        file, start = divmod(row, old)
        found.append((file, start, start + 1, row - rank * new))
    return found


def from_the_last(rows, saved, loaded, rank):
    return [list(move) for move in reversed(moves(rows, saved, loaded, rank))]


def own_rows_of_each(rows, saved, loaded, rank):
    """Each old shard's rows from this rank's place on."""
    return [(file, 0, size(rows, saved, file), 0) for file in range(saved)]


ALSO_WRONG = [
    ("empty", {MOVE: "(file, begin - file * old, end % old, begin - first)"}),
    ("beyond", {END: "end = min(last, (file + 1) * old) + 1"}),
    ("beyond", lambda *case: [(f + case[1], *rest) for f, *rest in moves(*case)]),
    ("holes", {BEGIN: "begin = max(first, file * old) + 1"}),
    ("holes", lambda *case: []),
    ("unrecognised", own_rows_of_each),
    ("unrecognised", lambda *case: [(f, 0, end - a, to) for f, a, end, to in moves(*case)]),
    ("none", lambda *case: [].sort()),
    ("kind", lambda *case: {0: (0, 1)}),
    ("four", lambda *case: [(f, start, stop) for f, start, stop, _ in moves(*case)]),
    ("whole_numbers", {MOVE: "(file, begin - file * old, end - file * old, (begin - first) / 3)"}),
    ("whole_numbers", {MOVE: "(file, begin - file * old, float('inf'), begin - first)"}),
    ("not_numbers", {MOVE: "(f'__{file}_0.distcp', begin - file * old, end - file * old, 0)"}),
    ("not_numbers", {MOVE: "(file, begin - file * old, None, begin - first)"}),
    ("not_numbers", {MOVE: "(file, begin - file * old, end - file * old, [begin - first])"}),
    ("raised", {MOVE: "(file, begin / (file - file), end, begin)"}),
]  # fmt: skip
ALSO_RIGHT = [row_by_row, from_the_last]
