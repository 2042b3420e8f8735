"""The configuration of a run, made from Python, YAML or the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtlib.config.belonging import refuse_without_effect
from dtlib.config.mesh import written
from dtlib.config.plan import BatchPlan, planned
from dtlib.config.values import (
    DEFAULT_STEPS,
    DEFAULTS,
    all_typed,
    default_lr,
    refuse_contradictions,
    refuse_out_of_range,
)


@dataclass(frozen=True)
class RunConfig:
    """What to train, on which data, how, and how the work is distributed over ranks.

    The learning rate belongs to the global batch: any number of ranks runs the same experiment.

    Parameters
    ----------
    **model and data**
    task
        what to learn: images or text
    model
        resnet18, resnet18-narrow, or a GPT shape: nano, gpt2, gpt2-medium, gpt2-large, gpt2-xl
        (default: resnet18 on an NVIDIA GPU, otherwise resnet18-narrow; for text nano); or
        hf:FOLDER or hf:NAME, a causal language model that transformers loads on this machine
    lora : RANK
        train adapters of this rank beside every linear layer of a model of transformers, whose own
        weights stay as they are (LoRA)
    data : NAME|FOLDER|FILE
        a data set's name, a folder or a file (default: pictures for images, grammar for text)
    text_column : NAME
        column that holds the documents' text (default: text, or the only column of text)
    tokenizer : NAME|FOLDER
        gpt2, trained, or a folder (default: that of a model of transformers, otherwise what suits
        the data)
    pad_vocab_to : ENTRIES
        pad the model's vocabulary with unused entries to a multiple of this number, because GPUs
        multiply whole tiles (128 pads GPT-2's 50,257 entries to 50,304)
    num_samples
        number of training pictures, or of training windows of text (default: all)
    max_length : TOKENS
        tokens in a window of text (default: the model's context, under hf: at most 1024)
    norm
        normalisation in the ResNet: batch or group
    width : CHANNELS
        channels of the ResNet's first stage (default: 64; 16 for resnet18-narrow)
    dropout : SHARE
        share of activations to drop, for a model of transformers all of its rates; seed, rank and
        step decide which
    augment
        crop and flip the training pictures
    channels_last
        store the channels of a pixel side by side in memory; strategies that shard refuse it
    loader
        device (the data stay on the training device) or dataloader (workers prepare the batches)
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
        samples that one rank processes at a time (default: derived); auto: the most that fit on
        the device, by the formulas of dtlib sim and a trial; the accumulation follows
    accumulation
        micro-batches per rank and optimizer step (default: derived, or 1, or a pipeline's stages)
    **optimizer**
    optimizer
        adamw or sgd
    lr : RATE
        peak learning rate for the global batch (default: depends on task, model and optimizer)
    momentum : SHARE
        momentum of sgd
    adam_eps : EPSILON
        epsilon of adamw: gradients far below it, which are mere rounding, do not move a weight
    weight_decay : DECAY
        weight decay of matrices and kernels, not of biases and norms (default: as for lr)
    warmup_steps
        optimizer steps over which the learning rate rises linearly to lr, at most all of them
    schedule
        what the learning rate does after its warm-up: cosine or constant
    lr_floor : SHARE
        learning rate at the end of the cosine schedule, as a share of lr
    clip : NORM
        largest 2-norm of the global gradient; a larger gradient is scaled down to it
    **strategy and ranks**
    strategy
        how the work is distributed over ranks (one file each in dtlib/strategies); dp means ddp
    ranks
        number of processes (default: as many as torchrun or srun started, otherwise those of mesh
        or of the Slurm allocation, otherwise 2; 1 for single)
    mesh : AXIS=N,…
        how the ranks are arranged, as in data=2,tensor=2: along data they get other samples, along
        tensor, pipeline or context they divide a model or a sequence, and replicate counts copies
        under fsdp (default: all along the axis named like the strategy, or else along data)
    pipeline_schedule
        order in which stages compute: gpipe, 1f1b, interleaved, zero-bubble, zbv or dualpipe-v
    bucket_cap_mb : MIB
        size in MiB of DDP's gradient buckets (default: torch's 25)
    compress_gradients
        bf16: DDP sends gradients in half as many bytes, with 2 to 3 decimal digits instead of 7
    static_graph
        tell DDP that every step uses the same parameters in the same order
    zero_stage : {1,2,3}
        what ZeRO shards: 1 optimizer state, 2 also gradients, 3 also weights (offload: 2 or 3)
    deepspeed : FILE
        your own DeepSpeed configuration (JSON); it must not contradict the batch sizes
    nvme : FOLDER
        folder on a fast disk for infinity's tensors (default: nvme in the run's folder)
    shard_ranks
        ranks that share one copy of the weights under fsdp (default: all; fewer: hybrid sharding)
    cpu_offload
        fsdp keeps weights, gradients and optimizer state on the CPU while they are not in use
    timeout : SECONDS
        seconds that a collective may take before the run is aborted
    **device and precision**
    device
        auto, cpu, cuda or mps
    threads
        CPU threads per rank; the same for any number of ranks, so that runs are comparable
    precision
        fp32, tf32 (an NVIDIA GPU multiplies fp32 with 10 bits of mantissa), bf16 or fp16 (autocast
        over fp32 weights; weights of 16 bits under DeepSpeed; fp16 with loss scaling), or fp64
    skip_limit
        number of fp16 steps in a row that may overflow before the run is aborted
    activation_checkpointing
        what a GPT's blocks recompute in backward instead of storing it: none, full (all but their
        inputs) or selective (all but inputs, matrix products and attention; under ZeRO stage 3
        the products too)
    compile
        compile the model with torch.compile
    compile_mode
        default, reduce-overhead (a GPU replays recorded kernels, which pays if they are small) or
        max-autotune (several kernels are timed for each operation, which takes minutes)
    seed
        seed of model initialisation, data order, augmentation and generated data
    deterministic
        use deterministic kernels and a fixed bucket layout, so that a resumed run is bit-equal
    **records and checkpoints**
    out : FOLDER
        folder of the run (default: a new one in runs/)
    resume
        resume from the last complete checkpoint in out; if there is none, start from step 0
    eval_every : STEPS
        optimizer steps between evaluations (default: only at the end)
    checkpoint_every : STEPS
        optimizer steps between checkpoints (default: only at the end; 0: none at all)
    checkpoints : PLACE
        where checkpoints lie: a folder, or s3://BUCKET/PREFIX (default: checkpoints/ in out)
    tensorboard
        also write the steps and evaluations as TensorBoard events, in the run's folder
    wandb
        also log steps and evaluations to Weights & Biases: offline (in the run's folder) or online
    **measuring and profiling**
    untimed_steps
        number of first steps that are left out of the timing
    ledger
        also measure the bytes and the collectives of one step
    profile
        also profile three of the first steps on every rank, and say what limits their speed
    nvtx
        name the parts of each step for NVIDIA's profilers, and let them record some steps
    nvtx_first : STEP
        first step that they record, counted from 1 at each start or resume
    nvtx_last : STEP
        last step that they record
    monitor
        also record readings of device and process once a second, in monitor.rankN.csv

    Raises
    ------
    BadInput
        when a value is unknown or out of range, or two values contradict each other.
    """

    task: str
    model: str | None = None
    lora: int | None = None
    data: str | None = None
    text_column: str | None = None
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
    mesh: str | None = None
    pipeline_schedule: str = "1f1b"
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
    checkpoints: str | None = None
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
        object.__setattr__(self, "mesh", written(self.mesh))
        refuse_out_of_range(vars(self))
        refuse_without_effect(vars(self), self.chosen())
        refuse_contradictions(vars(self))

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
            "lr": default_lr(vars(self)),
            "weight_decay": table["weight_decay"][self.optimizer],
            "steps": DEFAULT_STEPS if self.epochs is None else None,
        }
        missing = {key: value for key, value in fill.items() if getattr(self, key) is None}
        return dataclasses.replace(self, **missing)

    def plan(self, world_size: int) -> BatchPlan:
        """Return how the global batch is cut over `world_size` ranks; see `plan.planned`."""
        return planned(vars(self), world_size)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RunConfig:
        """Make a configuration from plain values, such as YAML's, in which `1e-5` is a string.

        Raises `BadInput` for an unknown key, naming the nearest, or a value of another type.
        """
        return cls(**all_typed(mapping, cls))
