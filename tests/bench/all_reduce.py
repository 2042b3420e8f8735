"""What every contestant of `bench_ranks.py` runs on four ranks; as a script, under torchrun."""

ELEMENTS = 1_000_000

# The cell of `%%ranks`, which finds rank, world_size, dist and torch at hand; the script gives the
# same names to the same lines.
CELL = f"""
x = torch.full(({ELEMENTS},), float(rank + 1))
dist.all_reduce(x)
assert x.eq(world_size * (world_size + 1) / 2).all(), x
print("sum", float(x[0]))
"""


def on_a_rank() -> float:
    """The same for `dtlib.launch`."""
    import torch
    from torch import distributed as dist

    names = {"torch": torch, "dist": dist, "rank": dist.get_rank(),
             "world_size": dist.get_world_size()}  # fmt: skip
    exec(CELL, names)
    return float(names["x"][0])


if __name__ == "__main__":
    from torch import distributed

    distributed.init_process_group("gloo")
    on_a_rank()
    distributed.destroy_process_group()
