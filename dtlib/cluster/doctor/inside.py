"""The part of some probes that runs in a separate process: `-m dtlib.cluster.doctor.inside X`.

It may crash or hang; the probe notices that. The answer is the last line printed, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def torch() -> dict[str, Any]:
    """Return what torch knows of itself and of the GPUs, without using a GPU."""
    import torch
    import torch.distributed as dist

    from dtlib.strategies.precision import has_bf16

    there = dist.is_available()
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    nccl = there and dist.is_nccl_available()
    cudnn, error = _cudnn_version() if gpus else (None, None)
    return {
        "version": torch.__version__,
        "gloo": there and dist.is_gloo_available(),
        "nccl": nccl,
        "mps": torch.backends.mps.is_available(),
        "gpus": [torch.cuda.get_device_name(index) for index in range(gpus)],
        "bf16": [has_bf16(index) for index in range(gpus)],
        "cuda": torch.version.cuda,
        "cudnn": cudnn,
        "cudnn_error": error,
        "nccl_version": ".".join(map(str, torch.cuda.nccl.version())) if gpus and nccl else None,
    }


def _cudnn_version() -> tuple[int | None, str | None]:
    """Return cuDNN's version, or torch's error if it was compiled for another one."""
    import torch

    try:
        return torch.backends.cudnn.version(), None
    except RuntimeError as error:
        return None, " ".join(str(error).split())


def cudnn() -> dict[str, Any]:
    """Run one small convolution on a GPU, which loads every part of cuDNN that training needs."""
    import torch

    picture, kernel = torch.ones(1, 8, 8, 8, device="cuda"), torch.ones(8, 8, 3, 3, device="cuda")
    picture.requires_grad_()
    torch.nn.functional.conv2d(picture, kernel).sum().backward()
    return {"version": torch.backends.cudnn.version()}


def collective() -> dict[str, Any]:
    """Start two ranks as a lesson does and sum rank + 1 over them."""
    from dtlib.ranks.launcher import launch

    started = time.monotonic()
    sums = launch(_sum, ranks=2, timeout=30.0, device="cpu", show=False)
    return {"sums": sums, "seconds": round(time.monotonic() - started, 1)}


def nodes() -> dict[str, Any]:
    """Do the same on all nodes of the allocation, and report the node of each rank."""
    from dtlib.ranks.launcher import launch

    started = time.monotonic()
    found = launch(_sum_and_node, timeout=60.0, limit=120.0, show=False)
    return {
        "sums": [total for total, _ in found],
        "nodes": [node for _, node in found],
        "seconds": round(time.monotonic() - started, 1),
    }


def _sum() -> float:
    import torch

    from dtlib.ranks import dist

    return float(dist.sum_over_ranks(torch.tensor(dist.world().rank + 1.0)))


def _sum_and_node() -> tuple[float, str]:
    return _sum(), os.environ.get("SLURMD_NODENAME", "")


def data() -> dict[str, str | None]:
    """Return where each real data set is (None: not here), by the name to fetch it by."""
    from dtlib.data import cifar10, corpus, tokenizer
    from dtlib.errors import BadInput

    sets: dict[str, Callable[[], object]] = {
        "cifar10": lambda: cifar10.locate("cifar10"),
        "wikitext2": lambda: corpus.load("wikitext2").source,
        "shakespeare": lambda: corpus.load("shakespeare").source,
        "gpt2-tokenizer": lambda: tokenizer.gpt2() and "found",
    }
    found: dict[str, str | None] = {}
    for name, look in sets.items():
        try:
            found[name] = str(look())
        except BadInput:
            found[name] = None
    return found


def deepspeed() -> dict[str, Any]:
    """Import DeepSpeed."""
    import deepspeed

    return {"version": deepspeed.__version__}


def operators() -> dict[str, Any]:
    """Return which of DeepSpeed's operators are not compiled, and the folder of the others."""
    from dtlib.strategies import operators as ops

    return {"missing": ops.not_built(ops.OPERATORS), "folder": str(ops.folder())}


QUESTIONS = {
    "torch": torch, "cudnn": cudnn, "collective": collective, "nodes": nodes, "data": data,
    "deepspeed": deepspeed, "operators": operators,
}  # fmt: skip

if __name__ == "__main__":
    try:
        answer = QUESTIONS[sys.argv[1]]()
    except Exception as error:
        # The probe shows the last line: one sentence, no traceback.
        print(f"{type(error).__name__}: {' '.join(str(error).split())}")
        sys.exit(1)
    print(json.dumps(answer))
