"""Exercise 3.3: how many rows a rank reads and keeps, as `split_dataset_by_node` shares them."""

from dtlib.errors import counted
from dtlib.learn.answers import Answer
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

rows_of = solution("rows_of", globals())

# words of the solution
DIVIDES, OWN = "len(shards) % world_size == 0", "sum(shards[rank::world_size])"
LAST = "(rank == world_size - 1)"
EACH = "len(shards) // world_size"
KEPT = "len(range(rank, total, world_size))"
LATE, EARLY = f"return total, {KEPT}", "return own, own"

EXERCISE = Answer(
    rows_of,
    read=several(2, "two"),
    changed="changed",
    cases=[
        ("1 shard of 8 rows, rank 0 of 1", ([8], 0, 1)),
        ("shards of 6 and 4 rows, rank 1 of 2", ([6, 4], 1, 2)),
        ("shards of 3, 7, 2 and 1 rows, rank 1 of 2", ([3, 7, 2, 1], 1, 2)),
        ("1 shard of 8 rows, rank 3 of 4", ([8], 3, 4)),
        ("1 shard of 10 rows, rank 1 of 4", ([10], 1, 4)),
        ("1 shard of 10 rows, rank 3 of 4", ([10], 3, 4)),
        ("shards of 5, 7 and 4 rows, rank 0 of 2", ([5, 7, 4], 0, 2)),
        ("shards of 5 and 6 rows, rank 2 of 4", ([5, 6], 2, 4)),
        ("1 shard of 2 rows, rank 3 of 4", ([2], 3, 4)),
    ],
    mistakes=[
        ("never_whole", {DIVIDES: "False"}),
        ("by_shards", {DIVIDES: "True"}),
        ("enough", {DIVIDES: "len(shards) >= world_size"}),
        ("turned", {DIVIDES: "world_size % len(shards) == 0"}),
        ("rows_divide", {DIVIDES: "sum(shards) % world_size == 0"}),
        ("reads_own", {LATE: f"return {KEPT}, {KEPT}"}),
        ("keeps_all", {LATE: "return total, total"}),
        ("rounded_down", {KEPT: "total // world_size"}),
        ("rounded_up", {KEPT: "-(-total // world_size)"}),
        ("fraction", {KEPT: "total / world_size"}),
        ("last_takes_rest", {KEPT: f"total // world_size + {LAST} * (total % world_size)"}),
        ("from_one", {KEPT: "len(range(rank + 1, total, world_size))"}),
        ("contiguous", {OWN: f"sum(shards[rank * ({EACH}) : (rank + 1) * ({EACH})])"}),
        ("one_shard", {OWN: "shards[rank]"}),
        ("equal_share", {OWN: "min(sum(shards[r::world_size]) for r in range(world_size))"}),
        ("stops_early", {LATE: "rows = range(total)[rank::world_size]\n"
                               "    return max(rows, default=-1) + 1, len(rows)"}),
        ("mean_shard", {OWN: "total / world_size"}),
        ("counts_shards", {OWN: "len(shards[rank::world_size])"}),
        ("next_rank", {"shards[rank::world_size]": "shards[rank + 1 :: world_size]"}),
        ("reads_all", {EARLY: "return total, own"}),
        ("swapped", lambda *case: rows_of(*case)[::-1]),
    ],
    facts=lambda got, want, shards, rank, world_size: {
        "read": f"{got[0]:g}", "kept": f"{got[1]:g}", "right_read": f"{want[0]:g}",
        "right_kept": f"{want[1]:g}", "count": counted(len(shards), "shard"), "total": sum(shards),
        "ranks": counted(world_size, "rank"),
    },
    passed=lambda got: Passed((("rows that rank 1 of 4 reads to keep 3", got[4][0], 10, ""),)),
)  # fmt: skip
