"""One rank of one contestant of `bench_tensor_parallel.py`, started by `turns.py`.

All train the same GPT, cut in the same places, on the same tokens with the same fused AdamW; logits
stay cut by the vocabulary. Nobody clips: `clip_grad_norm_` takes no mixture of DTensors and plain
tensors.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
import turns
from scratch_contestants import BETAS, CONTEXT, EPS, LR, SHAPES, VOCAB, groups, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, parallel

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch import tensor_parallel as tp
from dtlib.strategies import matrices

Loss = Callable[[Tensor, Tensor], Tensor]


def scratch(model: GPT, edges: tp.Edges) -> tuple[nn.Module, Loss]:
    cut = tp.TensorParallelGPT(model, edges)
    return cut, lambda x, y: cut(x, y) / y.numel()


def dtensor(model: GPT, edges: tp.Edges) -> tuple[nn.Module, Loss]:
    """torch's `parallelize_module`, with the styles of its tutorial."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if edges.sequence:
        cut_sequence(model, mesh)
    else:
        matrices.cut(model, mesh)
    return model, lambda x, y: loss_of(model(x), y)


def cut_sequence(model: GPT, mesh: DeviceMesh) -> None:
    """Outside of attention and MLP a rank holds its own positions, [b, s/N, h]."""
    for block in model.h:
        for parameter in block.attn.c_attn.parameters():
            parameter.data = matrices.together(parameter.data, mesh.size())
        block.attn.heads //= mesh.size()
    whole, own = Replicate(), Shard(1)
    gather = parallel.PrepareModuleInput(input_layouts=own, desired_input_layouts=whole)
    column, row = parallel.ColwiseParallel(), parallel.RowwiseParallel(output_layouts=own)
    styles = {
        "wte": parallel.RowwiseParallel(input_layouts=whole, output_layouts=own),
        "wpe": parallel.PrepareModuleOutput(output_layouts=whole, desired_output_layouts=Shard(0)),
        "h.*.ln_*": parallel.SequenceParallel(), "ln_f": parallel.SequenceParallel(),
        "h.*.attn": gather, "h.*.attn.c_attn": column, "h.*.attn.c_proj": row,
        "h.*.mlp": gather, "h.*.mlp.c_fc": column, "h.*.mlp.c_proj": row,
    }  # fmt: skip
    parallel.parallelize_module(model, mesh, styles, src_data_rank=None)
    model.ln_f.register_forward_hook(lambda _, __, y: y.redistribute(placements=[whole]))


def apart(kinds: list[dict]) -> list[dict]:
    """DTensors and plain tensors in groups of their own: no fused operator takes both."""
    return [
        {**kind, "params": params}
        for kind in kinds
        for cut in (False, True)
        if (params := [p for p in kind["params"] if isinstance(p, DTensor) is cut])
    ]


EDGES = {"tensor": tp.TENSOR, "sequence": tp.SEQUENCE}


def main(request: dict) -> None:
    """Compete as `request["name"]` until the bench ends this process.

    The name is "scratch" or "DTensor", and a key of `EDGES`.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = GPT(GPTConfig(VOCAB, CONTEXT, *SHAPES[request["shape"]]))
    by, way = request["name"].split()
    around = matrices.parts_of_logits() if by == "DTensor" else nullcontext()
    cut, loss_of_batch = {"scratch": scratch, "DTensor": dtensor}[by](model, EDGES[way])
    optimizer = torch.optim.AdamW(apart(groups(cut)), LR, BETAS, EPS, fused=True)
    tokens = torch.Generator().manual_seed(0)  # all ranks see the same tokens
    windows = dist.get_world_size() * request["micro_batch"]

    def steps(count: int) -> list[float]:
        losses = []
        for _ in range(count):
            text = torch.randint(VOCAB, (windows, CONTEXT + 1), generator=tokens)
            loss = loss_of_batch(text[:, :-1], text[:, 1:])
            loss.backward()
            if by == "scratch":
                tp.sum_partial(cut)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        dist.barrier()
        return [float(getattr(loss, "full_tensor", lambda loss=loss: loss)()) for loss in losses]

    with around:
        turns.serve(steps)
