"""Answers to lesson 21's further exercises, on the serial share and on plans."""

# --- 21.3 serial_share ----------------------------------------------------------------------


def karp_flatt(speedup, ranks):
    return (ranks / speedup - 1) / (ranks - 1)


def not_divided(speedup, ranks):
    return 1 / speedup - 1 / ranks


def efficiency_itself(speedup, ranks):
    return speedup / ranks


def what_is_lost(speedup, ranks):
    return 1 - speedup / ranks


def its_time(speedup, ranks):
    return 1 / speedup


def parallel_part(speedup, ranks):
    return 1 - karp_flatt(speedup, ranks)


def as_percent(speedup, ranks):
    return 100 * karp_flatt(speedup, ranks)


def all_overhead(speedup, ranks):
    return ranks / speedup - 1


def half_of_it(speedup, ranks):
    return karp_flatt(speedup, ranks) / 2


# Right.
def from_time(speedup, ranks):
    seconds = 1 / speedup  # of a step that takes 1 on one rank
    return (ranks * seconds - 1) / (ranks - 1)


# --- 21.4 plan ------------------------------------------------------------------------------


def run(n, batch, repeat, threads=1):
    return {"ranks": n, "global_batch": batch, "threads": threads, "repeat": repeat}


def size(kind, n, batch):
    return batch * n if kind == "weak" else batch


# Right.
def in_turns(kind, numbers, repeats, batch):
    counts = sorted({*numbers, 1})
    return [run(n, size(kind, n, batch), turn) for turn in range(repeats) for n in counts]


def most_ranks_first(kind, numbers, repeats, batch):
    counts = list(numbers) if 1 in numbers else [*numbers, 1]
    runs = []
    for turn in range(repeats):
        runs += [run(n, size(kind, n, batch), turn) for n in reversed(counts)]
    return runs


def no_baseline(kind, numbers, repeats, batch):
    return [run(n, size(kind, n, batch), turn) for turn in range(repeats) for n in numbers]


def shares_the_cores(kind, numbers, repeats, batch):
    return [one | {"threads": 4 // one["ranks"]} for one in in_turns(kind, numbers, repeats, batch)]


def always_grows(kind, numbers, repeats, batch):
    return in_turns("weak", numbers, repeats, batch)


def never_grows(kind, numbers, repeats, batch):
    return in_turns("strong", numbers, repeats, batch)


def one_twice(kind, numbers, repeats, batch):
    counts = [1, *numbers]
    return [run(n, size(kind, n, batch), turn) for turn in range(repeats) for n in counts]


def from_one_on(kind, numbers, repeats, batch):
    return [one | {"repeat": one["repeat"] + 1} for one in in_turns(kind, numbers, repeats, batch)]


def in_blocks(kind, numbers, repeats, batch):
    return sorted(in_turns(kind, numbers, repeats, batch), key=lambda one: one["ranks"])


def mostly_one_rank(kind, numbers, repeats, batch):
    return [one | run(1, batch, one["repeat"]) for one in in_turns(kind, numbers, repeats, batch)]


def only_the_ranks(kind, numbers, repeats, batch):
    return [n for _ in range(repeats) for n in sorted({*numbers, 1})]


WRONG = [
    ("serial_share", "not_divided", not_divided),
    ("serial_share", "efficiency", efficiency_itself),
    ("serial_share", "lost", what_is_lost),
    ("serial_share", "time", its_time),
    ("serial_share", "parallel", parallel_part),
    ("serial_share", "percent", as_percent),
    ("serial_share", "overhead", all_overhead),
    ("serial_share", "serial_share", half_of_it),
    ("plan", "baseline", no_baseline),
    ("plan", "threads", shares_the_cores),
    ("plan", "grows", always_grows),
    ("plan", "stays", never_grows),
    ("plan", "count", one_twice),
    ("plan", "repeats", from_one_on),
    ("plan", "blocks", in_blocks),
    ("plan", "plan", mostly_one_rank),
    ("plan", "not_runs", only_the_ranks),
]
RIGHT = [
    ("serial_share", karp_flatt),
    ("serial_share", from_time),
    ("plan", in_turns),
    ("plan", most_ranks_first),
]
