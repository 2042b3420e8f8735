from torch.utils.data.distributed import DistributedSampler


def patient(rank, n, seed):
    """Train for three epochs on twelve shuffled samples."""
    sampler = DistributedSampler(range(12), n, rank, shuffle=True, seed=seed)
    orders = {}
    for epoch in range(3):
        orders[f"epoch {epoch}"] = list(sampler)
    return orders
