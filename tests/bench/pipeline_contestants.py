"""One rank of one contestant of `bench_pipeline_speed.py`, started by `turns.py`.

All train the same GPT, cut into the same stages, on the same tokens with the same AdamW. Nobody
clips: a norm over ranks belongs to no schedule. The token embedding is tied to the output layer, so
both sum its gradient between the first rank and the last.
"""

import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
import turns
from scratch_contestants import BETAS, CONTEXT, EPS, LR, SHAPES, VOCAB, groups, loss_of
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.nn import functional as F

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch import pipeline as p
from dtlib.scratch.blocks import blocks_of
from dtlib.scratch.pipeline.stages import cut

Step = Callable[[Tensor, Tensor], float | None]  # the loss is on the last rank

# scratch's schedule, torch's, and how many stages are on a rank
SCHEDULES = {
    "GPipe": (p.gpipe, pipelining.ScheduleGPipe, 1),
    "1F1B": (p.one_forward_one_backward, pipelining.Schedule1F1B, 1),
    "interleaved": (p.interleaved(2), pipelining.ScheduleInterleaved1F1B, 2),
    "zero bubble": (p.zero_bubble_h1, pipelining.ScheduleInterleavedZeroBubble, 1),
}


def loss_sum(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def scratch(model: GPT, name: str, many: int) -> tuple[list[nn.Module], Step]:
    lists = p.for_all_ranks(SCHEDULES[name][0], dist.get_world_size(), many)
    pipeline = p.Pipeline(blocks_of(model), lists, loss_sum, timeout=60)
    return [*pipeline.stages.values()], lambda x, y: pipeline.step(x, y, y.numel())


def torchs(model: GPT, name: str, many: int) -> tuple[list[nn.Module], Step]:
    """As torch's tutorial has it, with the loss as a mean, and with the tied weight's sum."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    _, kind, chunks = SCHEDULES[name]
    every = cut(blocks_of(model), chunks * ranks)
    mine = {s: every[s] for s in range(rank, len(every), ranks)}
    cpu = torch.device("cpu")
    stages = [pipelining.PipelineStage(mine[s], s, len(every), cpu) for s in mine]
    single = issubclass(kind, pipelining.schedules.PipelineScheduleSingle)
    schedule = kind(stages[0] if single else stages, many, loss_fn=loss_of)
    ends = dist.new_group([0, ranks - 1])

    def step(x: Tensor, y: Tensor) -> float | None:
        losses: list[Tensor] = []
        inputs = (x,) if rank == 0 else ()
        target = y if rank == ranks - 1 else None
        schedule.step(*inputs, target=target, losses=losses, return_outputs=False)
        if rank in (0, ranks - 1):
            dist.all_reduce(model.wte.weight.grad, group=ends)
        return float(torch.stack(losses).mean()) if losses else None

    return [*mine.values()], step


def main(request: dict) -> None:
    """Compete as `request["name"]`, "scratch" or "torch" and a schedule, until the bench ends."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    model = GPT(GPTConfig(VOCAB, CONTEXT, *SHAPES[request["shape"]]))
    by, _, name = request["name"].partition(" ")
    mine, step = {"scratch": scratch, "torch": torchs}[by](model, name, 2 * ranks)
    optimizer = torch.optim.AdamW(
        groups(nn.ModuleList(mine)), lr=LR, betas=BETAS, eps=EPS, fused=True
    )
    tokens = torch.Generator().manual_seed(0)

    def steps(count: int) -> list[float]:
        losses = []
        for _ in range(count):
            windows = ranks * request["micro_batch"]
            text = torch.randint(VOCAB, (windows, CONTEXT + 1), generator=tokens)
            losses.append(step(text[:, :-1], text[:, 1:]) or 0.0)
            optimizer.step()
            optimizer.zero_grad()
        told = torch.tensor(losses, dtype=torch.float64)
        dist.broadcast(told, src=ranks - 1)  # and nobody is ahead when the turn ends
        return told.tolist()

    turns.serve(steps)
