import torch
import torch.distributed as dist


def patient(rank, n):
    """Minimise the mean of (w - 3 - rank)² over all ranks."""
    w, losses = torch.zeros(1), []
    for _ in range(6):
        losses.append(((w - 2.5 - n / 2) ** 2).item())
        gradient = 2 * (w - 3 - rank)
        dist.all_reduce(gradient)
        w -= 0.3 * gradient
    return {"loss": losses}
