import torch


def patient(rank, n, factor):
    """Multiply the rate by a factor after every step."""
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, factor)
    rates = []
    for _ in range(4):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(n):
            scheduler.step()
    return {"rate": rates}
