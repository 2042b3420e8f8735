import torch
import torch.distributed as dist


def patient(rank, n, value):
    """Ranks 0 and 1 exchange a vector of their value."""
    other = 1 - rank
    mine, theirs = torch.full((4,), value), torch.zeros(4)
    if rank < 2:
        dist.recv(theirs, src=other)
        dist.send(mine, dst=other)
    return {"received": theirs.tolist()}
