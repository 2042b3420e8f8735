"""Memory of a training run on one rank: the bytes of each kind, and the moment of their peak."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtlib.sim import (
    activations,
    flops,
    llama,
    shapes,
    stages,
    states,
    tensor_parallel,
    tensors,
    traffic,
)
from dtlib.sim.memory import PLACES, Traffic, communication, model_states
from dtlib.sim.setup import LOSSES, Setup

__all__ = ["LOSSES", "Estimate", "Row", "Setup", "estimate"]

MOMENTS = ("when backward begins", "when backward ends", "when the optimizer steps")
BACKWARD, END, STEP = MOMENTS


class Row(NamedTuple):
    """Bytes of one kind in one place; `moments` are the `Estimate.peaks` that include it."""

    kind: str
    place: str
    size: int
    why: str
    moments: tuple[str, ...]


class Estimate(NamedTuple):
    """What one rank holds, the peaks of that, and what it sends and computes in a step."""

    parameters: int
    rows: list[Row]
    peaks: dict[str, int]
    traffic: list[Traffic]
    flop: tuple[int, int]

    def peak(self) -> tuple[str, int]:
        """The moment at which the device holds most, and its bytes."""
        moment = max(self.peaks, key=lambda name: self.peaks[name])
        return moment, self.peaks[moment]


def estimate(setup: Setup) -> Estimate:
    """Predict memory, bytes sent and FLOP of a rank for one optimizer step.

    Left out: CUDA and its libraries (about half a GB per process), the allocator's fragmentation,
    and the optimizer's temporary tensors, which fused kernels do not have.
    """
    if setup.strategy == "pipeline":
        return max((_staged(setup, where) for where in stages.places(setup)), key=_most)
    shapes_ = setup.part()
    own = tensors.count(shapes_)
    rows = _states(setup, own) + _computing(setup, shapes_) + _moving(setup, own)
    sent = communication(
        own, strategy=setup.strategy, accumulation=setup.accumulation, precision=setup.precision,
        optimizer=setup.optimizer, zero_stage=setup.zero_stage,
        root=_root(setup) if setup.strategy == "fsdp" else 0, **setup.data,
    )  # fmt: skip
    sent += [Traffic(**row) for row in along_tensor(setup)]
    return _summed(tensors.count(setup.tensors()), rows, sent, _flop(setup))


def along_tensor(setup: Setup) -> list[dict[str, Any]]:
    """Rows of what a rank sends along the tensor axis of a mesh; none without one."""
    if setup.tensor == 1:
        return []
    shape, size = shapes.GPT[setup.model], activations.STREAM[setup.recipe][1]
    return tensor_parallel.traffic(
        setup.sequence, setup.micro_batch, shape["layers"], shape["width"], shape["context"],
        setup.tensor, size, micro_batches=setup.accumulation,
    )  # fmt: skip


def _summed(
    parameters: int, rows: list[Row], sent: list[Traffic], flop: tuple[int, int]
) -> Estimate:
    rows = [row for row in rows if row.size]
    peaks = {
        moment: sum(r.size for r in rows if r.place == "device" and moment in r.moments)
        for moment in MOMENTS
    }
    return Estimate(parameters, rows, peaks, sent, flop)


def _most(found: Estimate) -> int:
    return found.peak()[1]


def _staged(setup: Setup, where: stages.Place) -> Estimate:
    """Predict one rank of a pipeline; `estimate` returns the one that holds most."""
    everything = setup.tensors()
    own = tensors.count(stages.held(everything, where))
    by_stage = stages.activations_by_stage(where, setup)
    once, most = setup.loss_bytes()
    summed = states.RECIPES[setup.recipe][1] * own * (setup.ranks > where.ranks)
    rows = [
        *_states(setup, own),
        Row("activations", "device", stages.kept(where, by_stage), f"{where}", (BACKWARD,)),
        Row("logits", "device", (most - once) * where.is_last, "gradients of a loss", (BACKWARD,)),
        Row("messages", "device", stages.buffers(where, setup), "torch's buffers, one for each"
            " micro-batch", MOMENTS),
        Row("summed", "device", summed, "gradients in one piece, for their sum", (END,)),
    ]  # fmt: skip
    sent = [Traffic(**row) for row in stages.sent(where, setup, own)]
    return _summed(tensors.count(everything), rows, sent, stages.flop(where, setup))


def _states(setup: Setup, parameters: int) -> list[Row]:
    why = {
        "parameters": "weights",
        "fp32_copy": "what the optimizer updates",
        "gradients": "DDP's buckets" if setup.has_buckets else "from backward to step",
        "optimizer": f"moments of {setup.optimizer}",
    }
    rows = []
    for place in PLACES:
        held = model_states(
            parameters, strategy=setup.strategy, precision=setup.precision,
            optimizer=setup.optimizer, zero_stage=setup.zero_stage,
            cpu_offload=setup.cpu_offload, place=place, **setup.data,
        )._asdict()  # fmt: skip
        for kind, note in why.items():
            # with one micro-batch per step, there are no gradients yet when backward begins, unless
            # they are views of DDP's buckets, which stay allocated between steps
            late = kind == "gradients" and setup.accumulation == 1 and not setup.has_buckets
            rows.append(Row(kind, place, held[kind], note, MOMENTS[late:]))
    return rows


def _computing(setup: Setup, everything: list[tuple[str, tuple[int, ...]]]) -> list[Row]:
    """Rows of forward: activations, what is recomputed, logits, 16-bit copies of weights."""
    recipe, b, now = setup.recipe, setup.micro_batch, (BACKWARD,)
    if setup.llama:
        own = setup.llama
        positions = b * setup.sequence
        kept = llama.activations(b, setup.sequence, own, recipe, setup.checkpointing)
        again = llama.block_activations(positions, own, recipe) * (setup.checkpointing == "full")
        buffers = 0
        tied = own["tied"] * 2 * setup.vocab_size * own["width"] * traffic.TRAVELS[recipe][0]
    elif setup.is_text:
        shape = shapes.GPT[setup.model]
        block = (setup.sequence, b, shape["width"], shape["heads"], recipe, setup.attention)
        more = (setup.checkpointing, setup.dropout, not setup.gathers)
        size = (*block[:2], shape["layers"], *block[2:])
        kept, again = activations.gpt(*size, *more), activations.gpt_recomputed(*block, *more)
        if setup.tensor > 1:
            kept, again = _divided(setup, kept, again)
        buffers = 0
        words = states.share(setup.vocab_size, setup.tensor)
        tied = 2 * words * shape["width"] * traffic.TRAVELS[recipe][0]
    else:
        width = shapes.RESNET[setup.model]
        convolutions = tensors.resnet_convolutions(width)
        kept = activations.resnet(b, convolutions, recipe, 8 * width, setup.norm)
        # running mean and variance in fp32, and an int64 count, of every norm
        channels = [outputs for _, _, outputs, _, _ in convolutions]
        buffers = (8 * sum(channels) + 8 * len(channels)) * (setup.norm == "batch")
        again = tied = 0
    # all weights that enter a product; position embeddings are only added
    matrices = [tensors.elements(z) for name, z in everything if len(z) > 1 and name[:3] != "wpe"]
    copies = 2 * sum(matrices) if recipe == "autocast" else 0
    chunk, whole = "a chunk of them, gradients of the loss", "log-probabilities and two gradients"
    return [
        Row("buffers", "device", buffers, "running statistics of batch norm", MOMENTS),
        Row("weight copies", "device", copies, "16-bit copies that autocast makes", now),
        Row("activations", "device", kept, "what forward keeps for backward", now),
        Row("recomputed", "device", again, "activations of one block, once more", now),
        Row("logits", "device", setup.loss_bytes()[1], chunk if setup.is_chunked else whole, now),
        Row("tied embedding", "device", tied, "gradients of both its uses, to be added", (END,)),
    ]


def _divided(setup: Setup, kept: int, again: int) -> tuple[int, int]:
    """Activations of a GPT whose blocks are divided along a tensor axis; masks are whole."""
    shape, sbh = shapes.GPT[setup.model], setup.sequence * setup.micro_batch
    size = setup.sequence, setup.micro_batch, shape["width"], shape["heads"], setup.recipe
    masks = 2 * sbh * shape["width"] * setup.dropout
    whole = activations.gpt_block(*size, setup.attention, setup.dropout)
    own = int(tensor_parallel.block_activations(*size, setup.tensor)) + masks
    if setup.checkpointing == "full":
        return kept, own
    return kept - shape["layers"] * (whole - own), again


def _moving(setup: Setup, parameters: int) -> list[Row]:
    """Rows that exist only for communication: buckets, gathered weights, unreduced gradients."""
    recipe, ranks = setup.recipe, setup.axes.data_size
    gradient = states.RECIPES[recipe][1]
    gathered = bucket = step = waiting = 0
    group = setup.data["shard_ranks"] or ranks
    if setup.gathers or setup.strategy in ("fsdp", "tensor"):
        several = setup.gathers or setup.strategy == "tensor" or group > 1
        gathered = several * (_root(setup) + 2 * _block(setup)) * traffic.TRAVELS[recipe][0]
    if setup.strategy == "fsdp" and setup.accumulation > 1 and group > 1:
        waiting = gradient * parameters
    if setup.strategy in states.STAGES and ranks > 1:
        bucket = (setup.bucket or min(parameters // 4, 500_000_000)) * gradient
    if setup.strategy in ("zero1", "zero2", "zero3") and recipe == "mixed":
        step = 4 * states.share(parameters, ranks)
    return [
        Row("gathered", "device", gathered, "root, one block and the next one, whole", (BACKWARD,)),
        Row("unreduced", "device", waiting, "whole gradients until the last micro-batch",
            (BACKWARD, END)),
        Row("bucket", "device", bucket, "gradients that are being reduced", (END,)),
        Row("fp32 gradients", "device", step, "of the rank's shard, for the step", (STEP,)),
    ]  # fmt: skip


def _block(setup: Setup) -> int:
    """Elements of the largest block, which is gathered by itself."""
    if setup.llama:
        return tensors.count(llama.block(setup.llama))
    first = "h.0." if setup.is_text else "blocks.7."
    return tensors.count([t for t in setup.part() if t[0].startswith(first)])


def _root(setup: Setup) -> int:
    """Elements outside all blocks: embeddings and the last norm, or stem and head."""
    return tensors.count([t for t in setup.part() if not t[0].startswith(("h.", "blocks."))])


def _flop(setup: Setup) -> tuple[int, int]:
    """FLOP of one rank's step: those of the model, and those with recomputation.

    All that is counted is matrix products, of which each tensor rank has its part.
    """
    samples = setup.micro_batch * setup.accumulation
    if not setup.is_text:
        width = shapes.RESNET[setup.model]
        one = flops.resnet_step(samples, tensors.resnet_convolutions(width), 8 * width)
        return one, one
    if setup.llama:
        return llama.flop(
            samples * setup.sequence, setup.sequence, setup.llama, setup.checkpointing
        )
    shape, sequence = shapes.GPT[setup.model], setup.sequence
    size = shape["layers"], shape["width"], setup.vocab_size
    kind = setup.checkpointing
    kind = "linear" if kind == "selective" and setup.gathers else kind
    model, hardware = flops.gpt_step(samples * sequence, sequence, *size, kind)
    return model // setup.tensor, hardware // setup.tensor
