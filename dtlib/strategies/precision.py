"""The types in which a run keeps weights, computes, and sums."""

from __future__ import annotations

import torch

from dtlib.errors import Unavailable

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The type of matrix products under autocast; weights and optimizer stay in fp32."""

AMPERE = (8, 0)  # the compute capability of the first GPUs with TF32 and bf16


def refuse_tf32(precision: str, device_type: str) -> None:
    """Refuse tf32 if the run does not use an NVIDIA GPU.

    Raises
    ------
    Unavailable
        With the precision to use instead.
    """
    if precision == "tf32" and device_type != "cuda":
        raise Unavailable(
            "precision tf32 is a mode of NVIDIA's GPUs, and this run uses none; use"
            " --precision fp32."
        )


def choose_fp32(precision: str, device: torch.device) -> None:
    """Let an NVIDIA GPU round the factors of fp32 products to TF32, or forbid it.

    By default, torch forbids it in matrix products and allows it in convolutions, so "fp32" would
    mean two things: https://docs.pytorch.org/docs/stable/notes/cuda.html (TensorFloat-32).

    Raises `Unavailable` for tf32 and bf16 on a GPU older than Ampere, and for tf32 on any other
    device.
    """
    refuse_tf32(precision, device.type)
    wanted = precision == "tf32"
    if wanted and torch.cuda.get_device_capability(device) < AMPERE:
        raise Unavailable(
            f"{torch.cuda.get_device_name(device)} has no TF32, which needs Ampere or newer; use"
            " --precision fp32, or fp16."
        )
    if precision == "bf16" and device.type == "cuda" and not has_bf16(device):
        raise Unavailable(
            f"{torch.cuda.get_device_name(device)} has no bf16, which needs Ampere or newer, and"
            " would emulate it slowly; use --precision fp16, or fp32."
        )
    torch.set_float32_matmul_precision("high" if wanted else "highest")
    torch.backends.cudnn.allow_tf32 = wanted


def has_bf16(device: torch.device | int) -> bool:
    """Tell whether a GPU computes in bf16 itself; on older ones torch emulates it slowly."""
    return torch.cuda.get_device_capability(device) >= AMPERE


def weights_dtype(precision: str) -> torch.dtype:
    """Return the type of weights, inputs and gradients: float64 for fp64, otherwise float32."""
    return torch.float64 if precision == "fp64" else torch.float32


def sums_dtype(device: torch.device) -> torch.dtype:
    """Return the type of sums over many samples: float64, or float32 on mps, which has no other."""
    return torch.float32 if device.type == "mps" else torch.float64
