import torch
import torch.distributed as dist


def patient(rank, n):
    """Skip a step in which a batch is broken."""
    w, weights = torch.zeros(1), []
    for step in range(4):
        broken = step == 2 and rank == n - 1
        x = torch.tensor([float("inf") if broken else 1.0 + 2 * rank])
        skip = torch.tensor(float(not x.isfinite()))
        gradient = torch.zeros(1) if skip else x - w
        dist.all_reduce(gradient)
        w += 0 if skip else 0.5 * gradient / n
        weights.append(w.item())
    return {"weight": weights}
