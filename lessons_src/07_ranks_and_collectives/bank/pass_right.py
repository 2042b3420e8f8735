"""More answers to `pass_right`, for the tests alone."""

import torch
import torch.distributed as dist


def gathers_all(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    everything = [torch.empty_like(x) for _ in range(n)]
    dist.all_gather(everything, x)
    return everything[(rank - 1) % n]


def even_and_odd(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    right, left = (rank + 1) % n, (rank - 1) % n
    if rank % 2 == 0:
        dist.send(x, right)
        dist.recv(arrived, left)
    else:
        dist.recv(arrived, left)
        dist.send(x, right)
    return arrived


def batched(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    arrived = x.clone()
    if n > 1:
        send = dist.P2POp(dist.isend, x, (rank + 1) % n)
        receive = dist.P2POp(dist.irecv, arrived, (rank - 1 + n) % n)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
    return arrived


ALSO_WRONG = [("collective", gathers_all)]
HANG = [("died", {"torch.empty_like(x)": "torch.empty(1)"})]
ALSO_RIGHT = [even_and_odd, batched]
RARE = {"bytes"}
