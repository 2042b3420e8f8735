import torch
import torch.distributed as dist


def patient(rank, n, batches):
    """Skip a step in which a batch is broken on some rank."""
    w, weights = torch.zeros(1), []
    for x in batches:
        skip = torch.tensor(float(not x.isfinite()))
        gradient = torch.zeros(1) if skip else x - w
        dist.all_reduce(gradient)
        w += 0 if skip else 0.5 * gradient / n
        weights.append(w.item())
    return {"weight": weights}
