"""One configuration of a run, filled from Python, from YAML or from the command line."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtlib.config.belonging import refuse_without_effect
from dtlib.config.plan import BatchPlan, cut
from dtlib.config.values import DEFAULT_STEPS, DEFAULTS, refuse_out_of_range, typed
from dtlib.errors import BadInput, did_you_mean


@dataclass(frozen=True)
class RunConfig:
    """What to train, on what, how, and how it is spread over ranks.

    The learning rate belongs to the global batch: other ranks, the same experiment.

    Parameters
    ----------
    **model and data**
    task
        what is learnt: images or text
    model
        resnet18, resnet18-narrow, or a GPT shape: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl
        (default: resnet18-narrow on a CPU, resnet18 on a GPU, nano)
    data : NAME|FOLDER
        a data set's name or a folder (default: pictures, grammar)
    tokenizer : NAME|FOLDER
        gpt2, trained, or a folder (default: what suits the data)
    pad_vocab_to : ENTRIES
        the model's vocabulary is padded with unused entries to a multiple of this number, since
        GPUs multiply whole tiles (128 makes 50,304 of GPT-2's 50,257)
    num_samples
        number of training pictures, or of training windows of text (default: all there are)
    max_length : TOKENS
        tokens in a window of text (default: the model's context)
    norm
        batch or group: the normalisation of the ResNet
    width : CHANNELS
        channels of the ResNet's first stage (default: 64, narrow 16)
    dropout : SHARE
        share of activations dropped, drawn from (seed, rank, step)
    augment
        crop and flip the training pictures
    channels_last
        keep pictures and kernels in memory with their channels side by side; strategies that shard
        take no such parameters
    loader
        device (data lie on the training device) or dataloader (workers hand batches over)
    workers
        worker processes of the dataloader, per rank
    baseline
        also fit a linear model to the same pictures and report its test accuracy
    **batch and steps**
    steps
        optimizer steps to take (default: 100); not together with epochs
    epochs
        passes over the training data; the last incomplete global batch of each is dropped
    global_batch
        samples per optimizer step over all ranks (default: 64 images, 16 windows of text)
    micro_batch : N|auto
        samples that one rank computes at once (default: derived); auto: the most that fit on the
        device, by the formulas of dtlib sim and by a trial, with as much accumulation as follows
    accumulation
        micro-batches per rank and optimizer step (default: derived, else 1)
    **optimizer**
    optimizer
        adamw or sgd
    lr : RATE
        peak learning rate of the global batch (default: by task and optimizer)
    momentum : SHARE
        momentum of sgd
    adam_eps : EPSILON
        the epsilon of adamw: gradients far below it, mere rounding, do not move a weight
    weight_decay : DECAY
        decay of matrices and kernels, never of biases, norms (default: by task and optimizer)
    warmup_steps
        optimizer steps over which the learning rate rises linearly to lr
    schedule
        what the learning rate does after its warm-up: cosine or constant
    lr_floor : SHARE
        where cosine ends, as a share of lr
    clip : NORM
        largest 2-norm of the global gradient; larger ones are scaled down to it
    **strategy and ranks**
    strategy
        how the task is spread over ranks, a file of dtlib/strategies each; dp is ddp
    ranks
        number of processes (default: the world that is there, else those of the Slurm allocation,
        else 2; 1 for single)
    bucket_cap_mb : MIB
        size in MiB of DDP's gradient buckets (default: torch's 25)
    compress_gradients
        bf16: DDP's gradients travel in half as many bytes, and lose half of their digits
    static_graph
        tell DDP that every step uses the same parameters in the same order
    zero_stage : {1,2,3}
        what ZeRO shards: 1 optimizer, 2 also gradients, 3 also weights (offload: 2, or 3)
    deepspeed : FILE
        a DeepSpeed configuration of your own (JSON), which may not contradict the batch sizes
    nvme : FOLDER
        folder on a fast disk for infinity's tensors (default: nvme in the run's folder)
    shard_ranks
        ranks that share one copy of the weights under fsdp (default: all; fewer: hybrid sharding)
    cpu_offload
        fsdp keeps weights, gradients and optimizer on the CPU while they are not computed with
    timeout : SECONDS
        seconds that a collective may take before the run is given up
    **device and precision**
    device
        auto, cpu, cuda or mps
    threads
        threads per rank on a CPU; the same number whatever the ranks, so that runs compare
    precision
        fp32, tf32 (an NVIDIA GPU multiplies fp32 with 10 bits of mantissa), bf16 or fp16 (autocast
        over fp32 weights; fp16 with loss scaling), or fp64
    skip_limit
        most fp16 steps in a row that may overflow before the run is given up
    activation_checkpointing
        what a GPT's blocks compute again in backward instead of keeping it: none, full (all but
        their inputs) or selective (all but inputs, products and attention; under ZeRO's stage 3
        products too)
    compile
        compile the model with torch.compile
    compile_mode
        default, reduce-overhead (a GPU replays recorded kernels, which small ones gain by) or
        max-autotune (kernels are tried against each other first, which takes minutes)
    seed
        model initialisation, order, augmentation and generated data follow from it
    deterministic
        only deterministic kernels, and one fixed bucket layout, so that a resumed run is bit-equal
    **records and checkpoints**
    out : FOLDER
        folder of the run (default: a new one in runs/)
    resume
        resume from the last complete checkpoint in out; if there is none, start from step 0
    eval_every : STEPS
        optimizer steps between evaluations (default: only at the end)
    checkpoint_every : STEPS
        optimizer steps between checkpoints (default: only at the end; 0: not even there)
    tensorboard
        also write the steps and evaluations as TensorBoard events, in the run's folder
    wandb
        also log them to Weights & Biases: offline (in the run's folder) or online
    **measuring and profiling**
    untimed_steps
        first steps that enter no timing
    ledger
        also measure the bytes and the collectives of one step
    profile
        also record three of the first steps on every rank, and say what bounds them
    nvtx
        name the parts of each step for NVIDIA's profilers, and let them record some steps
    nvtx_first : STEP
        first step of this start that they record, counted from 1
    nvtx_last : STEP
        last step that they record
    monitor
        also note what device and process are at, once a second, in monitor.rankN.csv

    Raises
    ------
    BadInput
        when a value is unknown or out of range, or two values contradict each other.
    """

    task: str
    model: str | None = None
    data: str | None = None
    tokenizer: str | None = None
    pad_vocab_to: int | None = None
    num_samples: int | None = None
    max_length: int | None = None
    norm: str = "batch"
    width: int | None = None
    dropout: float = 0.0
    augment: bool = True
    channels_last: bool = False
    loader: str = "device"
    workers: int = 0
    baseline: bool = False
    steps: int | None = None
    epochs: int | None = None
    global_batch: int | None = None
    micro_batch: int | str | None = None
    accumulation: int | None = None
    optimizer: str = "adamw"
    lr: float | None = None
    momentum: float = 0.9
    adam_eps: float = 1e-5
    weight_decay: float | None = None
    warmup_steps: int = 0
    schedule: str = "cosine"
    lr_floor: float = 0.1
    clip: float | None = None
    strategy: str = "ddp"
    ranks: int | None = None
    bucket_cap_mb: float | None = None
    compress_gradients: str | None = None
    static_graph: bool = False
    zero_stage: int | None = None
    deepspeed: str | None = None
    nvme: str | None = None
    shard_ranks: int | None = None
    cpu_offload: bool = False
    timeout: float = 60.0
    device: str = "auto"
    threads: int = 1
    precision: str = "fp32"
    skip_limit: int = 20
    activation_checkpointing: str = "none"
    compile: bool = False
    compile_mode: str = "default"
    seed: int = 0
    deterministic: bool = False
    out: str | None = None
    resume: bool = False
    eval_every: int | None = None
    checkpoint_every: int | None = None
    tensorboard: bool = False
    wandb: str | None = None
    untimed_steps: int = 2
    ledger: bool = False
    profile: bool = False
    nvtx: bool = False
    nvtx_first: int = 5
    nvtx_last: int = 7
    monitor: bool = False

    def __post_init__(self) -> None:
        refuse_out_of_range(vars(self))
        refuse_without_effect(vars(self), self.chosen())
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if self.steps is not None and self.epochs is not None:
            numbers = f"steps {self.steps} and epochs {self.epochs}"
            raise BadInput(f"{numbers} both say when to stop; give one.")
        if self.precision == "fp64" and self.device == "mps":
            raise BadInput("precision fp64 does not exist on mps; use fp32, or device cpu.")
        if self.dropout >= 1:
            raise BadInput(f"dropout is {self.dropout}; it must be below 1.")
        if self.resume and self.out is None:
            raise BadInput("resume needs out, the folder of the run to resume.")
        if self.nvtx_last < self.nvtx_first:
            steps = f"nvtx_first {self.nvtx_first} and nvtx_last {self.nvtx_last}"
            raise BadInput(
                f"{steps} leave no step to record; the last may not be before the first."
            )

    def chosen(self) -> list[str]:
        """Return the names of the settings that are not what they are by default."""
        fields = dataclasses.fields(self)
        return [field.name for field in fields if getattr(self, field.name) != field.default]

    def resolved(self, device_type: str) -> RunConfig:
        """Return this configuration with every default that follows from the task filled in."""
        table = DEFAULTS[self.task]
        fill: dict[str, Any] = {
            "model": table["model"]["cuda" if device_type == "cuda" else "other"],
            "data": table["data"],
            "lr": table["lr"][self.optimizer],
            "weight_decay": table["weight_decay"][self.optimizer],
            "steps": DEFAULT_STEPS if self.epochs is None else None,
        }
        missing = {key: value for key, value in fill.items() if getattr(self, key) is None}
        return dataclasses.replace(self, **missing)

    def plan(self, world_size: int) -> BatchPlan:
        """Return how the global batch is cut over `world_size` ranks; see `plan.cut`."""
        total, alone = self.global_batch, self.strategy == "single"
        micro = self.micro_batch if isinstance(self.micro_batch, int) else None  # auto: the most
        if total is None and not (micro and self.accumulation):
            total = DEFAULTS[self.task]["global_batch"]
        return cut(total, micro, self.accumulation, world_size, alone=alone)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Make a configuration from plain values, such as YAML's, in which `1e-5` is a string.

        Raises
        ------
        BadInput
            for an unknown key (the nearest right one is named), or a value of another type.
        """
        hints = typing.get_type_hints(cls)
        for key in mapping:
            if key not in hints:
                near = did_you_mean(str(key), hints) or " `dtlib train --help` lists them all."
                raise BadInput(f"unknown key {key!r}.{near}")
        if "task" not in mapping:
            raise BadInput("the configuration names no task; add task: images or task: text.")
        return cls(**{key: typed(key, value, hints[key]) for key, value in mapping.items()})
