import torch

SCALE = 1024.0


def patient(rank, n):
    """Clip a gradient of length 0.5 to 1, in mixed precision."""
    gradient = torch.tensor([0.3, 0.4]) * SCALE
    lengths = []
    for turn in ("clip", "unscale"):
        if turn == "unscale":
            gradient /= SCALE
        if turn == "clip":
            gradient /= gradient.norm().clamp(min=1)
        lengths.append(gradient.norm().item())
    return {"length after each turn": lengths}
