import torch
import torch.distributed as dist


def patient(rank, n, gradients):
    """Clip the mean gradient to 1 when it is longer than that."""
    w, weights = torch.zeros(2), []
    for own in gradients:
        mean = own.clone()
        dist.all_reduce(mean)
        mean /= n
        if own.norm() > 1:
            mean /= mean.norm().clamp(min=1)
        w -= mean
        weights.append(w.clone())
    return {"weights": weights}
