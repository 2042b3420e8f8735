from torch.utils.data.distributed import DistributedSampler


def patient(rank, n):
    """Train for three epochs on twelve shuffled samples."""
    sampler = DistributedSampler(range(12), n, rank, shuffle=True, seed=3)
    firsts = {}
    for epoch in range(3):
        firsts[f"first sample of epoch {epoch}"] = float(next(iter(sampler)))
    return firsts
