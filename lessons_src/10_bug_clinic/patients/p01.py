import torch
import torch.distributed as dist


def patient(rank, n):
    """Ranks 0 and 1 exchange halves of a vector."""
    other = 1 - rank
    mine, theirs = torch.full((4,), 10.0**rank), torch.empty(4)
    if rank < 2:
        dist.recv(theirs, src=other)
        dist.send(mine, dst=other)
    return {"received": theirs.sum().item() if rank < 2 else 0.0}
