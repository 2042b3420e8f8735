import torch
import torch.distributed as dist


def patient(rank, n):
    """The mean loss of all tokens; rank r has r + 1 of them."""
    losses = torch.arange(1.0, rank + 2)
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    loss = losses.mean() / n
    dist.all_reduce(loss)
    return {"loss": loss.item(), "tokens": count.item()}
