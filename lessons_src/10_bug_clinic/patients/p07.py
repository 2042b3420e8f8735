import torch


def patient(rank, n, seed):
    """Draw three batches of noise on every rank, and train on all of them."""
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randn(64, generator=generator) for _ in range(3)]
    return {"batches": batches}
