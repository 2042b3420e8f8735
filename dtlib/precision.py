"""In which type a run keeps its weights, computes, and adds up."""

from __future__ import annotations

import torch

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""What matrix products run in under autocast; weights and optimizer stay in fp32."""


def weights_dtype(precision: str) -> torch.dtype:
    """Return the type of weights, inputs and gradients: float64 for fp64, else float32."""
    return torch.float64 if precision == "fp64" else torch.float32


def sums_dtype(device: torch.device) -> torch.dtype:
    """Return the type of sums over many samples: float64, or float32 on mps, which has no other."""
    return torch.float32 if device.type == "mps" else torch.float64
