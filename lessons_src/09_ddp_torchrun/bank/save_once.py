"""More answers to `save_once`, for the tests alone."""

from pathlib import Path

import torch
import torch.distributed as dist


def all_write_and_one_waits(state, path):
    torch.save(state, path)
    if dist.get_rank() == 0:
        dist.barrier()


# Right.
def renames(state, path):
    told = None
    if dist.get_rank() == 0:
        try:
            torch.save(state, path + ".tmp")
            Path(path + ".tmp").replace(path)
        except OSError as error:
            told = error
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, told)
    if any(everyone):
        raise RuntimeError("rank 0 could not save") from told


def the_last_one(state, path):
    failed, problem = torch.zeros(1), None
    if dist.get_rank() == dist.get_world_size() - 1:
        try:
            torch.save(state, path)
        except Exception as error:
            failed += 1
            problem = error
    dist.all_reduce(failed)
    if failed:
        raise problem or RuntimeError("the last rank could not save")


def others_go_first(state, path):
    if dist.get_rank() != 0:
        saved = torch.zeros(1)
        dist.broadcast(saved, 0)
        if not saved:
            raise OSError("no checkpoint")
        return
    saved = torch.zeros(1)
    try:
        torch.save(state, path)
        saved += 1
    finally:
        dist.broadcast(saved, 0)


ALSO_WRONG = []
HANG = [("all_write", all_write_and_one_waits)]
ALSO_RIGHT = [renames, the_last_one, others_go_first]
