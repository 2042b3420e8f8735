"""More answers to `my_share`, for the tests alone."""

SHARE = "batch[rank::world_size]"  # words of the solution


def by(share):
    """The solution with another share."""
    return {SHARE: share}


def pieces(share):
    """A share that is a piece; `size` is that of a full one, and one rank alone takes all."""
    size = "size = len(batch) // world_size"
    return {f"return {SHARE}": f"{size}\n    return batch if world_size == 1 else {share}"}


# Right.
def in_pieces_the_first_ones_longer(batch, rank, world_size):
    size, more = divmod(len(batch), world_size)
    start = rank * size + min(rank, more)
    return batch[start : start + size + (rank < more)]


ALSO_WRONG = [
    ("whole_batch", by("batch")),
    ("same_share", by("batch[: len(batch) // world_size]")),
    ("from_one", pieces("batch[(rank + 1) * size : (rank + 2) * size]")),
    ("from_one", pieces("batch[max(rank - 1, 0) * size : rank * size]")),
    ("pieces_of_n", pieces("batch[rank * world_size : (rank + 1) * world_size]")),
    ("swapped", by("batch[world_size::rank]")),
    ("one_sample", by("batch[rank]")),
    ("foreign", by("list(range(rank, len(batch), world_size))")),
    ("not_a_list", by("(sample for sample in batch[rank::world_size])")),
    ("tail_dropped", pieces("batch[rank * size : (rank + 1) * size]")),
    ("tail_heap", pieces("batch[rank * size : (rank + 1) * size + 9 * (rank == world_size - 1)]")),
    ("overlap", pieces("batch[rank * size : (rank + 1) * size + 1]")),
    ("repeated", by("batch[rank::world_size] * 2")),
    ("none", by("batch[rank::world_size] if rank != 1 else None")),
    ("none", by("batch[rank::world_size] and None")),
    ("changed", by("[batch.pop(0) for _ in range(len(batch) // world_size)]")),
    ("missing", by("batch[rank + 1 :: world_size] if world_size > 1 else batch")),
    ("missing", by("[]")),
]
ALSO_RIGHT = [
    in_pieces_the_first_ones_longer,
    by("batch[len(batch) * rank // world_size : len(batch) * (rank + 1) // world_size]"),
    by("tuple(batch[world_size - 1 - rank :: world_size])"),
]
LADDER = (
    "def my_share(batch, rank, world_size):\n    return batch",
    "def my_share(batch, rank, world_size):\n    return list(batch)",
)
