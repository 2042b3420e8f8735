"""More answers to `rows_of`, for the tests alone."""


def row_by_row(shards, rank, world_size):
    read = kept = seen = 0
    whole = not len(shards) % world_size
    for number, rows in enumerate(shards):
        for _ in range(rows):
            mine = (number if whole else seen) % world_size == rank
            seen += 1
            kept += mine
            read += mine or not whole
    return read, kept


def by_remainder(shards, rank, world_size):
    if len(shards) % world_size:
        each, rest = divmod(sum(shards), world_size)
        return sum(shards), each + (rank < rest)
    own = sum(rows for number, rows in enumerate(shards) if number % world_size == rank)
    return own, own


def fewest(shards, rank, world_size):
    if len(shards) % world_size:
        return sum(shards), sum(shards) // world_size
    each = min(sum(shards[r::world_size]) for r in range(world_size))
    return each, each


def until_its_last(shards, rank, world_size):
    if len(shards) % world_size == 0:
        return (sum(shards[rank::world_size]),) * 2
    kept = list(range(sum(shards)))[rank::world_size]
    return (kept[-1] + 1 if kept else 0), len(kept)


ALSO_WRONG = [
    ("equal_share", fewest),
    ("stops_early", until_its_last),
    ("two", {"return own, own": "return own"}),
    ("changed", {"total = sum(shards)": "total = sum(shards)\n    shards.append(0)"}),
    ("other", lambda shards, rank, world_size: (77, 78)),
    ("none", lambda shards, rank, world_size: print(shards)),
]
ALSO_RIGHT = [row_by_row, by_remainder]
