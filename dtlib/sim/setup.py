"""What `dtlib sim memory` is asked about: a model, a strategy, a batch."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from dtlib.config.mesh import Mesh, arranged
from dtlib.config.values import HF
from dtlib.errors import BadInput, refuse_unknown
from dtlib.sim import activations, llama, shapes, states, tensor_parallel, tensors
from dtlib.sim.memory import PRECISIONS

MOST = 10**6  # ranks, samples of a micro-batch …: more than exist; `fitting` tries all below
LOSSES = ("whole", "auto")
AXES = {
    "fsdp": ("data", "replicate", "tensor"), "tensor": ("data", "tensor"),
    "pipeline": ("data", "pipeline"),
}  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """What is trained and how, in the words of `RunConfig`.

    Parameters
    ----------
    model
        resnet18, resnet18-narrow, or a GPT shape: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl; or
        hf:FOLDER or hf:NAME, a model of transformers with the architecture llama
    strategy
        how the work is distributed over ranks
    ranks
        N, number of processes (default: those of mesh, otherwise 2; 1 for single)
    mesh : AXIS=N,…
        how the ranks are arranged, for fsdp, tensor and pipeline, as in data=2,tensor=2
    pipeline_schedule
        order in which a pipeline's stages compute: gpipe, 1f1b or interleaved
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
    mesh: str | None = None
    pipeline_schedule: str = "1f1b"

    def __post_init__(self) -> None:
        if self.llama:
            self._refuse_for_llama()
            object.__setattr__(self, "vocab_size", self.llama["vocab_size"])
        else:
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
        context = self._gpt()["context"] if self.is_text else self.sequence
        if self.sequence > context:
            wrong = f"exceeds the context of {self.model}, which is {context} tokens"
            raise BadInput(f"max_length {self.sequence} {wrong}; use at most {context}.")
        self._refuse_mesh()
        if self.strategy == "pipeline":
            self._refuse_for_stages()
        elif self.pipeline_schedule != "1f1b":
            raise BadInput(
                f"pipeline_schedule {self.pipeline_schedule} belongs to the strategy pipeline, not"
                f" to {self.strategy}."
            )
        if self.cpu_offload and self.strategy != "fsdp":
            raise BadInput(f"cpu_offload belongs to the strategy fsdp, not to {self.strategy}.")
        text_only = ("max_length", "attention", "checkpointing", "dropout", "vocab_size")
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), field.name
            if not self.is_text and name in text_only and value != field.default:
                raise BadInput(f"{name} {value} belongs to a GPT; {self.model} is a ResNet.")

    def _refuse_mesh(self) -> None:
        """Refuse a mesh that the strategy does not have, or whose formulas do not exist."""
        for axis, size in self.axes.sizes.items() if self.mesh else ():
            if size > 1 and axis not in AXES.get(self.strategy, ("data",)):
                raise BadInput(
                    f"sim predicts no axis {axis} of strategy {self.strategy}, and it is {size} in"
                    f" the mesh {self.axes}."
                )
        if self.tensor == 1:
            return
        if self.model not in shapes.GPT:
            raise BadInput(f"a tensor axis divides dtlib's own GPT, not {self.model}.")
        heads = self._gpt()["heads"]
        if heads % self.tensor:
            raise BadInput(
                f"model {self.model} has {heads} heads, which {self.tensor} tensor ranks cannot"
                " share equally."
            )
        for name, only in (("checkpointing", "selective"), ("attention", "materialised")):
            if getattr(self, name) == only:
                raise BadInput(f"{name} {only} is not counted along a tensor axis.")

    @property
    def axes(self) -> Mesh:
        """How the ranks are arranged."""
        settings = {name: getattr(self, name) for name in ("mesh", "shard_ranks", "strategy")}
        return arranged(settings, self.ranks)

    @property
    def tensor(self) -> int:
        """Ranks that share each matrix."""
        return self.axes.tensor

    @property
    def data(self) -> dict[str, Any]:
        """Ranks that hold or shard one part of the matrices, and the size of their shard groups."""
        if self.mesh is None:
            return {"ranks": self.axes.data_size, "shard_ranks": self.shard_ranks}
        copies = self.axes.replicate > 1
        return {"ranks": self.axes.data_size, "shard_ranks": self.axes.data if copies else None}

    @property
    def is_text(self) -> bool:
        """Whether the model is a language model."""
        return self.model in shapes.GPT or self.model.startswith(HF)

    @functools.cached_property
    def llama(self) -> llama.Shape:
        """The shape of a model of transformers; empty for dtlib's own."""
        return llama.shape_of(self.model) if self.model.startswith(HF) else {}

    def _gpt(self) -> dict[str, int]:
        return self.llama or shapes.GPT[self.model]

    def _refuse_for_llama(self) -> None:
        """Refuse what is counted for dtlib's own GPT alone."""
        for name, only in (("checkpointing", "selective"), ("attention", "materialised")):
            if getattr(self, name) == only:
                raise BadInput(
                    f"{name} {only} is counted for dtlib's own GPT, not for {self.model}."
                )
        if self.dropout:
            raise BadInput(f"dropout is counted for dtlib's own GPT, not for {self.model}.")

    def _refuse_for_stages(self) -> None:
        """Refuse what a pipeline's stages do not have."""
        if self.model not in shapes.GPT:
            raise BadInput(f"strategy pipeline cuts dtlib's own GPT into stages, not {self.model}.")
        if self.checkpointing != "none":
            raise BadInput(
                f"checkpointing {self.checkpointing} does not go with strategy pipeline; leave it"
                " out."
            )

    @property
    def sequence(self) -> int:
        """Tokens of a sample; a picture is one."""
        if not self.is_text:
            return 1
        longest = llama.LONGEST if self.llama else self._gpt()["context"]
        return self.max_length or min(self._gpt()["context"], longest)

    @property
    def is_chunked(self) -> bool:
        """Whether the logits are never stored whole."""
        size = self.micro_batch * self.sequence, self.vocab_size, self.precision
        return self.loss == "auto" and self.tensor == 1 and activations.is_chunked(*size)

    def loss_bytes(self) -> tuple[int, int]:
        """Bytes that the loss keeps from forward to backward, and its peak."""
        positions, classes = self.micro_batch * self.sequence, self.vocab_size
        if self.is_chunked:
            width = self._gpt()["width"]
            return activations.chunked_loss(positions, classes, width, self.recipe)
        own = states.share(classes, self.tensor)
        return activations.logits(positions, own if self.is_text else 10, self.recipe)

    @property
    def gathers(self) -> bool:
        """Whether it is DeepSpeed's stage 3."""
        return self.zero_stage == 3 or self.strategy in ("zero3", "infinity")

    @property
    def has_buckets(self) -> bool:
        """Whether gradients are views of the buckets of torch's DDP, which are always there."""
        return self.ranks > 1 and self.strategy in ("ddp", "dp", "accelerate", "lightning")

    @property
    def recipe(self) -> str:
        """Key of `states.RECIPES`."""
        return states.recipe(self.strategy, self.precision)

    def part(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and sizes of a rank's part of the parameters; without a tensor axis all of them."""
        return tensor_parallel.part(self.tensors(), self.tensor)

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and sizes of the model's parameters."""
        if not self.is_text:
            return tensors.resnet(shapes.RESNET[self.model])
        if self.llama:
            return llama.tensors(self.llama)
        shape = shapes.GPT[self.model]
        return tensors.gpt(shape["layers"], shape["width"], shape["context"], self.vocab_size)
