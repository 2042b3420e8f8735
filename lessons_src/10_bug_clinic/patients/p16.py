import torch


def patient(rank, n, exact, scale):
    """Clip a gradient to a length of 1, in mixed precision."""
    gradient = (exact * scale).to(torch.half)  # as backward in fp16 gives it
    gradient = gradient.float()
    for turn in ("clip", "unscale"):
        if turn == "unscale":
            gradient /= scale
        if turn == "clip":
            gradient /= gradient.norm().clamp(min=1)
    return {"gradient": gradient.tolist()}
