import torch
from torch import nn


def patient(rank, n, target):
    """Minimise (w - target)² with plain gradient descent."""
    w, losses = nn.Parameter(torch.zeros(1)), []
    optimizer = torch.optim.SGD([w], lr=0.3)
    for _ in range(8):
        loss = (w - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"loss": losses}
