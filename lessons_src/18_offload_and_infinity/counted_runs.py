"""Train a small GPT under the course's DeepSpeed strategies, and count what a step moves."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from dtlib import launch, strategies
from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks.dist import sum_over_ranks, world
from dtlib.strategies import operators as ops
from dtlib.strategies.base import Strategy
from dtlib.strategies.optim import make_optimizer

from .crossings import Crossings, counted_files, of_kernel

BATCH, CONTEXT, VOCABULARY = 4, 32, 256
SUB_GROUPS = 16  # in which dtlib has DeepSpeed update a rank's share


def operators_are_here() -> bool:
    """Tell whether DeepSpeed's compiled operators are built; if not, say how to build them."""
    missing = ops.not_built(ops.NEEDED["infinity"])
    if missing:
        print(
            f"DeepSpeed's operators {', '.join(missing)} are not built here; `{ops.BUILD}` builds"
            " them once, in about ten minutes. Until then this lesson shows recorded results."
        )
    return not missing


def refuse_small(ranks: int, layers: int, width: int, steps: int) -> None:
    """Refuse settings with which infinity's files would not hold the optimizer's state.

    DeepSpeed updates a share in sub-groups, and dtlib lets the state of one go to a file if it has
    more elements than the rank's part of the largest tensor.

    Raises
    ------
    BadInput
        With the fewest layers or steps.
    """
    if steps < 3:
        raise BadInput(f"steps={steps}: the first makes the state, the last is counted; take 3.")
    fewest = next(n for n in range(1, 1000) if _holds_state(ranks, n, width))
    if layers < fewest:
        raise BadInput(
            f"layers={layers}: with width={width} and ranks={ranks} DeepSpeed would keep the"
            f" optimizer's state in memory and not on the disk; take layers={fewest} or more."
        )


def _holds_state(ranks: int, layers: int, width: int) -> bool:
    with torch.device("meta"):
        sizes = [p.numel() for p in GPT(_shape(layers, width)).parameters()]
    return sum(sizes) // SUB_GROUPS > -(-max(sizes) // ranks)


def _shape(layers: int, width: int) -> GPTConfig:
    return GPTConfig(VOCABULARY, context=CONTEXT, layers=layers, heads=4, width=width)


def measured(
    ways: Sequence[tuple[str, str, int]], ranks: int = 2, device: str = "cpu", layers: int = 8,
    width: int = 64, steps: int = 4, nvme: str | None = None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train the same model in several ways on ranks of this machine, one after the other.

    Parameters
    ----------
    ways
        A strategy, a precision and the micro-batches of a step: ("offload", "bf16", 1).
    ranks, device
        As in `dtlib.launch`.
    layers, width
        Of the GPT.
    steps
        At least 3: the first makes the optimizer's state, and the last is counted.
    nvme
        Folder for infinity's files; by default one in the working folder. No file stays in it,
        also if a rank is killed.

    Returns
    -------
    dict
        For "offload bf16" and so on, "offload bf16 x3" with three micro-batches, of rank 0:
        `losses`, a global mean for each step; `moved`, bytes in the last step; `kernel`, those that
        Linux counted; `files`, bytes on the disk by kind; `share`, the elements of this rank's
        part; `ms`, the median step in between.
    """
    cleaned = strategies.find("infinity").surroundings(_config("infinity", "fp32", ranks, 1, nvme))
    with cleaned:
        every = launch(
            _runs, ways, layers, width, steps, nvme, ranks=ranks, device=device, timeout=300
        )
    return every[0]


def _config(name: str, precision: str, ranks: int, micro: int, nvme: str | None) -> RunConfig:
    return RunConfig(
        task="text", strategy=name, precision=precision, global_batch=BATCH * ranks * micro,
        micro_batch=BATCH, out=".", nvme=nvme if name == "infinity" else None,
    )  # fmt: skip


def _runs(
    ways: Sequence[tuple[str, str, int]], layers: int, width: int, steps: int, nvme: str | None
) -> dict[str, dict[str, Any]]:
    return {
        f"{name} {precision}{f' x{micro}' * (micro > 1)}": _run(
            name, precision, micro, layers, width, steps, nvme
        )
        for name, precision, micro in ways
    }


def _run(
    name: str, precision: str, micro: int, layers: int, width: int, steps: int, nvme: str | None
) -> dict[str, Any]:
    here = world()
    config = _config(name, precision, here.world_size, micro, nvme).resolved(here.device.type)
    made = strategies.find(name)(config, here, config.plan(here.world_size))
    losses, seconds = [], []
    with _watched_files(name) as moved, contextlib.closing(made) as strategy:
        torch.manual_seed(0)
        strategy.prepare(GPT(_shape(layers, width)), functools.partial(make_optimizer, config))
        texts = torch.Generator().manual_seed(here.rank)
        for step in range(steps):
            x = torch.randint(VOCABULARY, (micro, BATCH, CONTEXT), generator=texts)
            x = x.to(here.device)
            if step < steps - 1:
                begin = time.perf_counter()
                losses.append(_step(strategy, x))
                seconds.append(time.perf_counter() - begin)
        moved.clear()
        before = of_kernel()
        on_gpu = here.device.type == "cuda"
        with Crossings(None if on_gpu else host_of(strategy)) as seen:
            losses.append(_step(strategy, x))
        if name == "infinity" and not on_gpu:  # its file buffers are the device's memory here
            del seen.bytes["to_device"]
        kernel = of_kernel()
        kernel.subtract(before)
        files = _files(getattr(strategy, "files", None))
        share = -(-strategy.parameters // here.world_size)
    return {
        "losses": losses,
        "moved": {**seen.bytes, **moved},
        "kernel": dict(kernel),
        "files": files,
        "share": share,
        "ms": 1000 * statistics.median(seconds[1:]),
    }


@contextlib.contextmanager
def _watched_files(name: str) -> Iterator[Counter[str]]:
    if name != "infinity":
        yield Counter()
        return
    ops.deepspeed(world().device.type)
    ops.load(ops.NEEDED[name])
    with counted_files() as moved:
        yield moved


def _step(strategy: Strategy, x: torch.Tensor) -> float:
    """Predict the next larger token; return the mean loss over micro-batches and ranks."""
    tokens = torch.tensor(float(x.numel() * world().world_size), device=x.device)
    total = torch.zeros((), device=x.device)
    for i, part in enumerate(x):
        with strategy.micro_step(last=i == len(x) - 1), strategy.autocast():
            logits = strategy.model(part).flatten(0, 1)
            loss = F.cross_entropy(logits, (part.flatten() + 1) % VOCABULARY, reduction="sum")
            strategy.backward(loss, tokens)
        total += loss.detach()
    strategy.step(1e-3)
    return float(sum_over_ranks(total) / tokens)


def host_of(strategy: Any) -> list[torch.Tensor]:
    """Return the tensors that DeepSpeed keeps on the host, when device and host differ."""
    if strategy.config.strategy not in ("offload", "infinity"):
        return []
    optimizer, found = strategy.optimizer, []
    for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"):
        for copy in getattr(optimizer, name, ()):
            found += [copy.detach(), *([] if copy.grad is None else [copy.grad])]
    found += getattr(optimizer, "accumulated_grads_in_cpu", {}).values()
    found += getattr(optimizer, "param_buffer_of_bit16_for_cpu_offload_groups", ())
    gradients = "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition"
    return [*found, *getattr(optimizer, gradients, {}).values()]


def _files(folder: Path | None) -> dict[str, int]:
    """Bytes on the disk: of the weights' files, and of the optimizer's."""
    found = {"weights": 0, "optimizer": 0}
    for path in folder.rglob("*.swp") if folder else ():
        found["optimizer" if "optimizer" in path.parts else "weights"] += path.stat().st_size
    return found
