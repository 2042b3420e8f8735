import torch
import torch.distributed as dist


def patient(rank, n):
    """Clip the gradient to 1 when it is longer than that."""
    w, checksums = torch.zeros(2), []
    for step in range(4):
        own = torch.tensor([float(step * rank), 0.5])
        mean = own.clone()
        dist.all_reduce(mean)
        mean /= n
        if own.norm() > 1:
            mean /= mean.norm().clamp(min=1)
        w -= mean
        checksums.append(round(w.sum().item(), 4))
    return {"checksum": checksums}
