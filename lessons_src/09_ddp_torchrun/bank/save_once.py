"""More answers to `save_once`, for the tests alone."""

from pathlib import Path

import torch
import torch.distributed as dist


def others_leave(state, path):
    if dist.get_rank() != 0:
        return
    torch.save(state, path)
    dist.barrier()


def all_write_and_one_waits(state, path):
    torch.save(state, path)
    if dist.get_rank() == 0:
        dist.barrier()


# Right.
def renames(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path + ".tmp")
        Path(path + ".tmp").replace(path)
    dist.barrier()


def the_last_one(state, path):
    if dist.get_rank() == dist.get_world_size() - 1:
        torch.save(state, path)
    dist.all_reduce(torch.zeros(1))


def others_go_first(state, path):
    if dist.get_rank() != 0:
        dist.barrier()
        return
    torch.save(state, path)
    dist.barrier()


ALSO_WRONG = []
HANG = [("alone_in_barrier", others_leave), ("all_write", all_write_and_one_waits)]
ALSO_RIGHT = [renames, the_last_one, others_go_first]
