"""Memory of a training run on one rank: the bytes of each kind, and the moment of their peak."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from dtlib.errors import BadInput, refuse_unknown
from dtlib.sim import activations, flops, shapes, states, tensors, traffic
from dtlib.sim.memory import PLACES, PRECISIONS, Traffic, communication, model_states

MOST = 10**6  # ranks, samples of a micro-batch …: more than exist; `fitting` tries all below
LOSSES = ("whole", "auto")
MOMENTS = ("when backward begins", "when backward ends", "when the optimizer steps")
BACKWARD, END, STEP = MOMENTS


@dataclass(frozen=True)
class Setup:
    """What is trained and how, in the words of `RunConfig`.

    Parameters
    ----------
    model
        resnet18, resnet18-narrow, or a GPT shape: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl
    strategy
        how the work is distributed over ranks
    ranks
        N, number of processes (default: 2; 1 for single)
    micro_batch
        samples that a rank processes at a time
    accumulation
        micro-batches per rank and step
    precision
        as in dtlib train; or what bf16 and fp16 stand for: mixed (weights in 16 bits, DeepSpeed),
        policy (fp32 shards, FSDP), autocast (fp32 weights, all others)
    optimizer
        adamw, sgd (with momentum) or sgd-plain
    max_length
        tokens in a window of text (default: the model's context)
    vocab_size
        entries of the vocabulary
    attention
        flash, or materialised
    checkpointing
        what blocks recompute, as under --activation-checkpointing: none, selective or full
    loss
        whole, or auto: in chunks above 2²⁶ logits, not in fp16 (default: whole; command: auto)
    dropout
        whether the masks of dropout are kept
    norm
        batch or group: the normalisation of a ResNet
    zero_stage
        ZeRO stage of offload (default: 2)
    shard_ranks
        ranks in a shard group of fsdp (default: all)
    cpu_offload
        fsdp keeps its shards on the host
    bucket
        elements of DeepSpeed's gradient bucket (default: a quarter of the model, 5·10⁸ at most)

    Raises
    ------
    BadInput
        for an unknown name, a number out of range, or a setting that model or strategy don't have.
    """

    model: str = "gpt2"
    strategy: str = "ddp"
    ranks: int = 1
    micro_batch: int = 1
    accumulation: int = 1
    precision: str = "fp32"
    optimizer: str = "adamw"
    max_length: int | None = None
    vocab_size: int = shapes.GPT2_VOCABULARY
    attention: str = "flash"
    checkpointing: str = "none"
    loss: str = "whole"
    dropout: bool = False
    norm: str = "batch"
    zero_stage: int | None = None
    shard_ranks: int | None = None
    cpu_offload: bool = False
    bucket: int | None = None

    def __post_init__(self) -> None:
        refuse_unknown("model", self.model, {**shapes.GPT, **shapes.RESNET})
        refuse_unknown("attention", self.attention, activations.ATTENTION)
        refuse_unknown("checkpointing", self.checkpointing, activations.CHECKPOINTING)
        refuse_unknown("precision", self.precision, PRECISIONS)
        refuse_unknown("norm", self.norm, ("batch", "group"))
        refuse_unknown("loss", self.loss, LOSSES)
        for name in ("ranks", "micro_batch", "accumulation", "max_length", "vocab_size", "bucket"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"{name} is {value}; it must be at least 1.")
            if name not in ("max_length", "bucket") and value > MOST:
                raise BadInput(f"{name} is {value}; it must be at most {MOST}.")
        context = shapes.GPT[self.model]["context"] if self.is_text else self.sequence
        if self.sequence > context:
            wrong = f"exceeds the context of {self.model}, which is {context} tokens"
            raise BadInput(f"max_length {self.sequence} {wrong}; use at most {context}.")
        if self.cpu_offload and self.strategy != "fsdp":
            raise BadInput(f"cpu_offload belongs to the strategy fsdp, not to {self.strategy}.")
        text_only = ("max_length", "attention", "checkpointing", "dropout", "vocab_size")
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), field.name
            if not self.is_text and name in text_only and value != field.default:
                raise BadInput(f"{name} {value} belongs to a GPT; {self.model} is a ResNet.")

    @property
    def is_text(self) -> bool:
        """Whether the model is a GPT."""
        return self.model in shapes.GPT

    @property
    def sequence(self) -> int:
        """Tokens of a sample; a picture is one."""
        return (self.max_length or shapes.GPT[self.model]["context"]) if self.is_text else 1

    @property
    def is_chunked(self) -> bool:
        """Whether the logits are never stored whole."""
        size = self.micro_batch * self.sequence, self.vocab_size, self.precision
        return self.loss == "auto" and activations.is_chunked(*size)

    def loss_bytes(self) -> tuple[int, int]:
        """Bytes that the loss keeps from forward to backward, and its peak."""
        positions, classes = self.micro_batch * self.sequence, self.vocab_size
        if self.is_chunked:
            width = shapes.GPT[self.model]["width"]
            return activations.chunked_loss(positions, classes, width, self.recipe)
        return activations.logits(positions, classes if self.is_text else 10, self.recipe)

    @property
    def gathers(self) -> bool:
        """Whether it is DeepSpeed's stage 3."""
        return self.zero_stage == 3 or self.strategy in ("zero3", "infinity")

    @property
    def recipe(self) -> str:
        """Key of `states.RECIPES`."""
        return states.recipe(self.strategy, self.precision)

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and sizes of the model's parameters."""
        if not self.is_text:
            return tensors.resnet(shapes.RESNET[self.model])
        shape = shapes.GPT[self.model]
        return tensors.gpt(shape["layers"], shape["width"], shape["context"], self.vocab_size)


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
    shapes_ = setup.tensors()
    parameters = tensors.count(shapes_)
    rows = _states(setup, parameters) + _computing(setup, shapes_) + _moving(setup, parameters)
    rows = [row for row in rows if row.size]
    peaks = {
        moment: sum(r.size for r in rows if r.place == "device" and moment in r.moments)
        for moment in MOMENTS
    }
    sent = communication(
        parameters, setup.ranks, setup.strategy, setup.accumulation, setup.precision,
        optimizer=setup.optimizer, zero_stage=setup.zero_stage, shard_ranks=setup.shard_ranks,
        root=_root(setup) if setup.strategy == "fsdp" else 0,
    )  # fmt: skip
    return Estimate(parameters, rows, peaks, sent, _flop(setup))


def _states(setup: Setup, parameters: int) -> list[Row]:
    why = {
        "parameters": "weights", "fp32_copy": "what the optimizer updates",
        "gradients": "from backward to step", "optimizer": f"moments of {setup.optimizer}",
    }  # fmt: skip
    rows = []
    for place in PLACES:
        held = model_states(
            parameters, setup.ranks, setup.strategy, setup.precision, optimizer=setup.optimizer,
            zero_stage=setup.zero_stage, shard_ranks=setup.shard_ranks,
            cpu_offload=setup.cpu_offload, place=place,
        )._asdict()  # fmt: skip
        for kind, note in why.items():
            # with one micro-batch per step, there are no gradients yet when backward begins
            late = kind == "gradients" and setup.accumulation == 1
            rows.append(Row(kind, place, held[kind], note, MOMENTS[late:]))
    return rows


def _computing(setup: Setup, everything: list[tuple[str, tuple[int, ...]]]) -> list[Row]:
    """Rows of forward: activations, what is recomputed, logits, 16-bit copies of weights."""
    recipe, b, now = setup.recipe, setup.micro_batch, (BACKWARD,)
    if setup.is_text:
        shape = shapes.GPT[setup.model]
        block = (setup.sequence, b, shape["width"], shape["heads"], recipe, setup.attention)
        more = (setup.checkpointing, setup.dropout, not setup.gathers)
        size = (*block[:2], shape["layers"], *block[2:])
        kept, again = activations.gpt(*size, *more), activations.gpt_recomputed(*block, *more)
        buffers = 0
        tied = 2 * setup.vocab_size * shape["width"] * traffic.TRAVELS[recipe][0]
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


def _moving(setup: Setup, parameters: int) -> list[Row]:
    """Rows that exist only for communication: buckets, gathered weights, unreduced gradients."""
    recipe, ranks = setup.recipe, setup.ranks
    gradient = states.RECIPES[recipe][1]
    gathered = bucket = step = waiting = 0
    if setup.gathers or setup.strategy == "fsdp":
        several = (setup.shard_ranks or ranks) > 1
        gathered = several * (_root(setup) + 2 * _block(setup)) * traffic.TRAVELS[recipe][0]
    if setup.strategy == "fsdp" and setup.accumulation > 1 and (setup.shard_ranks or ranks) > 1:
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
    if setup.is_text:
        return tensors.count(tensors.gpt_block(shapes.GPT[setup.model]["width"]))
    return tensors.count([t for t in setup.tensors() if t[0].startswith("blocks.7.")])


def _root(setup: Setup) -> int:
    """Elements outside all blocks: embeddings and the last norm, or stem and head."""
    return tensors.count([t for t in setup.tensors() if not t[0].startswith(("h.", "blocks."))])


def _flop(setup: Setup) -> tuple[int, int]:
    """FLOP of one rank's step: those of the model, and those with recomputation."""
    samples = setup.micro_batch * setup.accumulation
    if not setup.is_text:
        width = shapes.RESNET[setup.model]
        one = flops.resnet_step(samples, tensors.resnet_convolutions(width), 8 * width)
        return one, one
    shape, sequence = shapes.GPT[setup.model], setup.sequence
    size = shape["layers"], shape["width"], setup.vocab_size
    kind = setup.checkpointing
    kind = "linear" if kind == "selective" and setup.gathers else kind
    return flops.gpt_step(samples * sequence, sequence, *size, kind)
