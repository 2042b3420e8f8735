"""More answers to `plan`, for the tests only."""


def run(n, batch, repeat):
    return {"ranks": n, "global_batch": batch, "threads": 1, "repeat": repeat}


def size(kind, n, batch):
    return batch * n if kind == "weak" else batch


def in_turns(kind, numbers, repeats, batch):
    counts = sorted({*numbers, 1})
    return [run(n, size(kind, n, batch), turn) for turn in range(repeats) for n in counts]


def most_ranks_first(kind, numbers, repeats, batch):
    counts = list(numbers) if 1 in numbers else [*numbers, 1]
    runs = []
    for turn in range(repeats):
        runs += [run(n, size(kind, n, batch), turn) for n in reversed(counts)]
    return runs


ALSO_WRONG = [
    ("not_runs", lambda kind, numbers, repeats, batch: sorted({*numbers, 1}) * repeats),
]
ALSO_RIGHT = [in_turns, most_ranks_first]
