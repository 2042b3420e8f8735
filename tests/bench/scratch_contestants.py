"""One rank of one contestant of `bench_data_parallel.py` or `bench_zero.py`, started by `turns.py`.

All train the same GPT from the same weights on the same tokens with the same AdamW, weight decay on
matrices only, and the same clip; everything else is how the framework's own guide writes it.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import turns
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch import data_parallel as dp
from dtlib.scratch import zero

LR, BETAS, EPS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
VOCAB, CONTEXT = 512, 64
# layers, heads, width: 0.87M, 4.89M and 1.66M parameters; `deep` gives 4 ranks 2 stages each
SHAPES = {"nano": (4, 4, 128), "5M": (6, 4, 256), "deep": (8, 4, 128)}
ETHERNET = 1e-4, 8e-9  # α 0.1 ms, β of 1 Gbit/s

STAGES = {1: zero.ZeroStage1, 2: zero.ZeroStage2, 3: zero.ZeroStage3}

Step = Callable[[Tensor, Tensor], Tensor]


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def groups(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]


def torch_step(
    model: nn.Module, call: nn.Module | None = None, end: Callable[[], None] = lambda: None
) -> Step:
    """A step with torch's fused AdamW; `end` stands between backward and clip."""
    optimizer = torch.optim.AdamW(groups(model), lr=LR, betas=BETAS, eps=EPS, fused=True)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = loss_of((call or model)(x), y)
        loss.backward()
        end()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def ddp(model: GPT, **options: Any) -> Step:
    return torch_step(model, nn.parallel.DistributedDataParallel(model, **options))


def averaged(average: Callable[[nn.Module], None]) -> Callable[[GPT], Step]:
    return lambda model: torch_step(model, end=lambda: average(model))


def overlap(model: GPT, **options: Any) -> Step:
    return torch_step(model, end=dp.OverlappedDataParallel(model, **options).wait)


def slow_link(cap_bytes: int) -> Callable[[GPT], Step]:
    """Gigabit Ethernet, simulated by a clock; its seconds are told beside the step's."""

    def build(model: GPT) -> Step:
        link = dp.DelayedLink(*ETHERNET)
        TELL["link_s"], TELL["waited_s"] = (lambda: link.busy), (lambda: link.waited)
        return overlap(model, cap_bytes=cap_bytes, all_reduce=link.all_reduce)

    return build


def fsdp(model: GPT) -> Step:
    from torch.distributed.fsdp import fully_shard

    for block in model.h:
        fully_shard(block)
    fully_shard(model)
    return torch_step(model)


def scratch(stage: int) -> Callable[[GPT], Step]:
    def build(model: GPT) -> Step:
        rule = zero.AdamW(LR, BETAS, EPS, WEIGHT_DECAY)
        sharded = STAGES[stage](model, rule)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = loss_of(sharded(x), y)
            sharded.backward(loss)
            sharded.step(CLIP)
            return loss

        return step

    return build


def deepspeed(stage: int) -> Callable[[GPT], Step]:
    """DeepSpeed's defaults, but for stage 3's threshold: 0 shards small parameters too."""

    def build(model: GPT) -> Step:
        from dtlib.strategies import operators as ops

        deepspeed = ops.deepspeed("cpu")
        adamw = {"lr": LR, "betas": BETAS, "eps": EPS, "torch_adam": True}
        config = {
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
            "gradient_clipping": CLIP, "optimizer": {"type": "AdamW", "params": adamw},
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        }  # fmt: skip
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=groups(model), config=config
        )

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = loss_of(engine(x), y)
            engine.backward(loss)
            engine.step()
            return loss

        return step

    return build


TELL: dict[str, Callable[[], float]] = {}
CONTESTANTS: dict[str, Callable[[GPT], Step]] = {
    "no communication": torch_step,
    "naive": averaged(dp.average_gradients),
    "flat": averaged(dp.flat_all_reduce),
    "buckets": averaged(dp.bucket_all_reduce),
    "overlap": overlap,
    "torch DDP": ddp,
    "torch DDP, bucket views": lambda model: ddp(model, gradient_as_bucket_view=True),
    "slow link, one bucket": slow_link(2**40),
    "slow link, buckets of 1 MiB": slow_link(2**20),
    "torch FSDP2": fsdp,
    **{f"scratch stage {stage}": scratch(stage) for stage in (1, 2, 3)},
    **{f"DeepSpeed stage {stage}": deepspeed(stage) for stage in (1, 2, 3)},
}


def main(request: dict) -> None:
    """Compete as `request["name"]` until the bench ends this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if request["name"].startswith("DeepSpeed"):
        from dtlib.strategies import operators as ops

        ops.deepspeed("cpu").init_distributed("gloo")
    else:
        dist.init_process_group("gloo")
    layers, heads, width = SHAPES[request["shape"]]
    model = GPT(GPTConfig(VOCAB, CONTEXT, layers, heads, width))
    step = CONTESTANTS[request["name"]](model)
    tokens = torch.Generator().manual_seed(dist.get_rank())

    def steps(count: int) -> list[float]:
        losses = []
        for _ in range(count):
            text = torch.randint(VOCAB, (request["micro_batch"], CONTEXT + 1), generator=tokens)
            losses.append(step(text[:, :-1], text[:, 1:]).detach())
        dist.barrier()
        return torch.stack(losses).tolist()

    turns.serve(steps, lambda: {name: tell() for name, tell in TELL.items()})
