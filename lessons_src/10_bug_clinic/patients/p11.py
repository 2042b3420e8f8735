import torch
import torch.distributed as dist


def patient(rank, n, losses):
    """The mean loss of all tokens; a rank is given those of its own tokens."""
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    loss = losses.mean() / n
    dist.all_reduce(loss)
    return {"loss": loss.item(), "tokens": count.item()}
