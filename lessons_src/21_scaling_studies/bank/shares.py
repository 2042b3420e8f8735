"""More answers to `serial_share`, for the tests only."""


def karp_flatt(speedup, ranks):
    return (ranks / speedup - 1) / (ranks - 1)


def from_time(speedup, ranks):
    seconds = 1 / speedup  # of a step that takes 1 on one rank
    return (ranks * seconds - 1) / (ranks - 1)


ALSO_WRONG = [
    ("serial_share", lambda speedup, ranks: karp_flatt(speedup, ranks) / 2),
    ("gustafson", lambda speedup, ranks: 1 - (speedup - 1) / (ranks - 1)),
    ("rounded", lambda speedup, ranks: round(karp_flatt(speedup, ranks), 2)),
]
ALSO_RIGHT = [karp_flatt, from_time]
