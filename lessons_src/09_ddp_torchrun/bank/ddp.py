"""Answers to lesson 09's stretch exercises that its checks must refuse, and others to accept."""

import os
from pathlib import Path

import torch
import torch.distributed as dist


def everyones(number):
    total = torch.tensor(float(number))
    dist.all_reduce(total)
    return total


# --- 9.3 ddp_loss ---------------------------------------------------------------------------


def own_mean(losses):
    return losses.mean() if len(losses) else losses.sum()


def forgets_ddps_division(losses):
    return losses.sum() / everyones(len(losses))


def reduces_the_loss(losses):
    total = losses.sum()
    everywhere = total.detach().clone()
    dist.all_reduce(everywhere)
    return (total + (everywhere - total.detach())) / everyones(len(losses))


def sums(losses):
    return losses.sum()


def sums_over_ranks(losses):
    return losses.sum() * dist.get_world_size()


def own_count_times_ranks(losses):
    return losses.sum() * dist.get_world_size() / max(1, len(losses))


def multiplies_twice(losses):
    n = dist.get_world_size()
    return losses.sum() * n * n / everyones(len(losses))


def mean_on_the_empty_rank(losses):
    n = dist.get_world_size()
    return losses.mean() * len(losses) * n / everyones(len(losses))


def nothing_from_the_empty_rank(losses):
    count = everyones(len(losses))
    if not len(losses):
        return torch.tensor(0.0)
    return losses.sum() * dist.get_world_size() / count


def takes_a_number(losses):
    return losses.sum().item() * dist.get_world_size() / everyones(len(losses))


def keeps_them_apart(losses):
    return losses * dist.get_world_size() / everyones(len(losses))


def goes_back_itself(losses):
    loss = losses.sum() * dist.get_world_size() / everyones(len(losses))
    loss.backward()
    return loss


def returns_nothing(losses):
    losses.sum() * dist.get_world_size() / everyones(len(losses))


# Right.
def weighs_its_mean(losses):
    share = len(losses) / everyones(len(losses))
    mean = losses.mean() if len(losses) else losses.sum()
    return mean * share * dist.get_world_size()


def gathers_counts(losses):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(losses))
    return losses.sum() / (sum(counts) / len(counts))


# --- 9.4 save_once --------------------------------------------------------------------------


def every_rank(state, path):
    torch.save(state, path)
    dist.barrier()


def first_of_the_node(state, path):
    if int(os.environ["LOCAL_RANK"]) == 0:
        torch.save(state, path)
    dist.barrier()


def nobody(state, path):
    dist.barrier()


def no_waiting(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)


def waits_before(state, path):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(state, path)


def waits_inside(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)
        dist.barrier()


def others_leave(state, path):
    if dist.get_rank() != 0:
        return
    torch.save(state, path)
    dist.barrier()


def beside_the_path(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path + ".tmp")
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


WRONG = [
    ("ddp_loss", "mean_of_means", own_mean),
    ("ddp_loss", "divided_twice", forgets_ddps_division),
    ("ddp_loss", "sum", sums),
    ("ddp_loss", "sum_of_all", sums_over_ranks),
    ("ddp_loss", "own_count", own_count_times_ranks),
    ("ddp_loss", "times_n_twice", multiplies_twice),
    ("ddp_loss", "nan", mean_on_the_empty_rank),
    ("ddp_loss", "early", nothing_from_the_empty_rank),
    ("ddp_loss", "detached", takes_a_number),
    ("ddp_loss", "vector", keeps_them_apart),
    ("ddp_loss", "backward_inside", goes_back_itself),
    ("ddp_loss", "none", returns_nothing),
    ("save_once", "all_write", every_rank),
    ("save_once", "local_rank", first_of_the_node),
    ("save_once", "nobody", nobody),
    ("save_once", "no_barrier", no_waiting),
    ("save_once", "barrier_before", waits_before),
    ("save_once", "alone_in_barrier", waits_inside),
    ("save_once", "elsewhere", beside_the_path),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("ddp_loss", "divided_twice", reduces_the_loss),
    ("save_once", "alone_in_barrier", others_leave),
]

RIGHT = [
    ("ddp_loss", weighs_its_mean),
    ("ddp_loss", gathers_counts),
    ("save_once", renames),
    ("save_once", the_last_one),
    ("save_once", others_go_first),
]
