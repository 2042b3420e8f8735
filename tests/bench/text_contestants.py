"""One contestant of `bench_text_loop.py`, in processes of its own that `turns.py` starts.

All train the same GPT from the same weights, on the same windows of text in the same order, with
the same AdamW, learning rate and clipping; everything else is how each framework's own guide
writes the loop, with logging, progress bars, evaluation and checkpoints switched off as it says.
Started as several ranks, a contestant trains with its framework's own data parallelism. One whose
name begins with "plain, " is the plain loop with one thing changed: what that thing is worth.
"""

import functools
import json
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
import turns
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, Dataset

from dtlib.data import open_text
from dtlib.data.batches import DeviceText, order
from dtlib.models.gpt import GPT, GPTConfig, shape

LR, BETAS, EPS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))


@dataclass(frozen=True)
class Problem:
    """What every contestant is given."""

    total: int  # optimizer steps
    global_batch: int
    folder: str  # empty, the same on every rank
    seed: int = 0
    model_name: str = "nano"

    @property
    def micro_batch(self) -> int:
        return self.global_batch // WORLD

    def config(self, vocab_size: int) -> GPTConfig:
        return shape(self.model_name, vocab_size=vocab_size)


class Windows(Dataset):
    """The training windows, already in the order in which they are to be seen."""

    def __init__(self, problem: Problem) -> None:
        text = open_text("grammar", seed=problem.seed)
        self.vocab_size = text.tokenizer.vocab_size
        self.context = problem.config(self.vocab_size).context
        self.tokens = text.train
        self.packed = DeviceText(text.train, self.context, "cpu")
        count, wanted = self.packed.complete, problem.total * problem.global_batch
        assert wanted <= count, f"{problem.total} steps want {wanted} windows of {count}"
        self.order = order(count, problem.seed, 0)[:wanted]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        start = int(self.order[index]) * self.context
        window = self.tokens[start : start + self.context + 1]
        return {"x": window[:-1], "y": window[1:]}


class WithLoss(nn.Module):
    """The GPT as frameworks want it: a module whose forward returns the mean loss."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.gpt(x).flatten(0, 1), y.flatten())}


def build(problem: Problem, fused: bool = True) -> tuple[Windows, WithLoss, torch.optim.AdamW]:
    """The data, the model and the optimizer, the same for everybody."""
    windows = Windows(problem)
    model = WithLoss(GPT(problem.config(windows.vocab_size), seed=problem.seed))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]
    return windows, model, torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, fused=fused)


def plain(problem: Problem, change: str = "") -> list[float]:
    """PyTorch alone, batches indexed out of one tensor; DistributedDataParallel over ranks."""
    windows, model, optimizer = build(problem, fused=change != "AdamW not fused")
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    kernels = list(SDPBackend.__members__.values())[1:]  # the first is that of an error
    if change == "attention by torch's math":
        kernels = [SDPBackend.MATH]
    loader = iter(DataLoader(windows, batch_size=problem.micro_batch))
    losses = []
    with sdpa_kernel(kernels), Path(os.devnull).open("w") as log:
        for step in range(problem.total):
            if change == "windows from a DataLoader":
                x, y = next(loader).values()
            else:
                start = step * problem.global_batch + RANK * problem.micro_batch
                x, y = windows.packed.batch(windows.order[start : start + problem.micro_batch])
            loss = model(x, y)["loss"]
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=change != "gradients set to 0")
            losses.append(loss.detach())
            if change == "loss.item() every step":
                loss.item()
            if change == "a line printed every step":
                print(json.dumps({"step": step, "loss": loss.item()}), file=log, flush=True)
    return mean_over_ranks(losses)


CHANGES = ["AdamW not fused", "attention by torch's math", "windows from a DataLoader",
           "gradients set to 0", "loss.item() every step", "a line printed every step"]  # fmt: skip


def ours(problem: Problem) -> list[float]:
    """`dtlib.train`, inside the ranks that somebody started."""
    import dtlib

    run = dtlib.train(
        "text", model=problem.model_name, data="grammar", seed=problem.seed,
        strategy="ddp" if WORLD > 1 else "single", steps=problem.total,
        global_batch=problem.global_batch, optimizer="adamw", lr=LR, adam_eps=EPS, clip=CLIP,
        weight_decay=WEIGHT_DECAY, schedule="constant", device="cpu", out=problem.folder,
    )  # fmt: skip
    return [line["loss"] for line in run.history]


def accelerate(problem: Problem) -> list[float]:
    """Accelerate's own loop: prepare, backward, clip_grad_norm_."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    windows, model, optimizer = build(problem)
    loader = DataLoader(windows, batch_size=problem.micro_batch)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    losses = []
    for batch in loader:
        loss = model(**batch)["loss"]
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return mean_over_ranks(losses)


def transformers(problem: Problem) -> list[float]:
    """transformers' Trainer; its sampler is replaced, so that it sees the shared order."""
    from torch.utils.data import SequentialSampler
    from transformers import Trainer, TrainingArguments

    class InOrder(Trainer):
        def _get_train_sampler(self, train_dataset=None):
            return SequentialSampler(self.train_dataset)

    windows, model, optimizer = build(problem)
    losses: list[Tensor] = []
    model.register_forward_hook(lambda _, __, output: losses.append(output["loss"].detach()))
    arguments = TrainingArguments(
        output_dir=problem.folder, max_steps=problem.total, use_cpu=True, max_grad_norm=CLIP,
        per_device_train_batch_size=problem.micro_batch, ddp_find_unused_parameters=False,
        remove_unused_columns=False, dataloader_pin_memory=False, disable_tqdm=True,
        logging_strategy="no", save_strategy="no", eval_strategy="no", report_to="none",
    )  # fmt: skip
    constant = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    InOrder(model, arguments, train_dataset=windows, optimizers=(optimizer, constant)).train()
    return mean_over_ranks(losses)


def lightning(problem: Problem) -> list[float]:
    """Lightning's Trainer with a LightningModule (Fabric would be nearer to a plain loop)."""
    import lightning as pl
    from torch.utils.data import DistributedSampler

    windows, model, optimizer = build(problem)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.losses: list[Tensor] = []

        def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
            loss = self.model(**batch)["loss"]
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return optimizer

    # Left to itself, the Trainer shuffles what it spreads over ranks.
    sampler = DistributedSampler(windows, WORLD, RANK, shuffle=False) if WORLD > 1 else None
    loader = DataLoader(windows, batch_size=problem.micro_batch, sampler=sampler)
    module = Module()
    pl.Trainer(
        accelerator="cpu", devices=WORLD, strategy="ddp" if WORLD > 1 else "auto",
        max_steps=problem.total, gradient_clip_val=CLIP, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False,
    ).fit(module, loader)  # fmt: skip
    return mean_over_ranks(module.losses)


def mean_over_ranks(losses: list[Tensor]) -> list[float]:
    """The loss of each global batch, before its update; every rank has as many tokens."""
    own = torch.stack(losses).double()
    if WORLD > 1:
        torch.distributed.all_reduce(own)
    return (own / WORLD).tolist()


class Kernels:
    """What one step calls: watched by torch's profiler from the end of a step to the next one's."""

    def __init__(self) -> None:
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def told(self, optimizer: torch.optim.Optimizer) -> dict:
        """Kernels, precision and threads, which have to be the same, and how much is called."""
        self.profiler.stop()
        called = [event.name for event in self.profiler.events() if event.name.startswith("aten::")]
        main = {name for name in called if "scaled_dot_product" in name or "adamw" in name}
        weights = {str(p.dtype) for group in optimizer.param_groups for p in group["params"]}
        return {
            "kernels": sorted(name.removeprefix("aten::") for name in main),
            "precision": sorted(weights), "threads": torch.get_num_threads(),
            "calls": len(called), "reads": called.count("aten::_local_scalar_dense"),
        }  # fmt: skip


def train(name: str, problem: Problem) -> None:
    """Train in turns, and answer with the losses of all steps after the last one.

    Torch's own global hook ends a turn, so that every contestant is timed at the same points,
    whoever wrote its loop. The second step, one of the warm-up, is watched for its kernels.
    """
    torch.set_num_threads(1)
    pace, kernels, told = turns.Pace(problem.total), Kernels(), {}

    def after_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if pace.taken == 0:
            kernels.profiler.start()
        elif pace.taken == 1:
            told.update(kernels.told(optimizer))
        pace.after_step()

    register_optimizer_step_post_hook(after_step)
    turns.answer({"ready": True})
    pace.begin()
    losses = CONTESTANTS[name](problem)
    assert pace.taken == problem.total, f"{name} took {pace.taken} steps of {problem.total}"
    assert len(losses) == problem.total, f"{name} kept {len(losses)} losses of {problem.total}"
    pace.finish(losses, told)


CONTESTANTS = {
    "plain": plain, "dtlib": ours, "accelerate": accelerate,
    "transformers": transformers, "lightning": lightning,
    **{f"plain, {change}": functools.partial(plain, change=change) for change in CHANGES},
}  # fmt: skip


def main(request: dict) -> None:
    """Compete as `request["name"]`; its other entries are those of `Problem`."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as own:
        train(
            request["name"],
            Problem(**{"folder": own} | {k: v for k, v in request.items() if k != "name"}),
        )
