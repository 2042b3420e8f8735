"""A small run whose every part changes from step to step, so that a forgotten one is seen."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from dtlib.errors import BadInput

PART = 5 << 20  # bytes: the smallest part that S3 takes
SAMPLES, BATCH = 40, 4  # ten batches an epoch
PARTS = ("model", "optimizer", "schedule", "scaler", "sampler", "rng", "step")


def refuse_beyond(total: int, stopped: int, rows: int, steps: int) -> None:
    """Refuse parameters of the lesson with which a later cell could not work.

    Raises
    ------
    BadInput
        With the names, the values and their bounds.
    """
    again = "change it in the cell of parameters and run that cell and this one again."
    if not 10 <= total <= 200:
        raise BadInput(f"total is {total}, and this lesson works with 10 to 200 steps: {again}")
    if not 1 <= stopped <= total - 3:
        raise BadInput(
            f"stopped is {stopped}, and of {total} steps it must be at least 1 and at most "
            f"{total - 3}: {again}"
        )
    if rows % 4 or not 4 <= rows <= 65_536:
        raise BadInput(f"rows is {rows}, and must be a multiple of 4, from 4 to 65,536: {again}")
    if not 1 <= steps <= 500:
        raise BadInput(f"steps is {steps}, and this lesson works with 1 to 500: {again}")


class Sampler:
    """Deals out batches in a new random order each epoch, and knows how far it is."""

    def __init__(self, seed: int) -> None:
        self.seed, self.epoch, self.position = seed, 0, 0

    def next(self) -> list[int]:
        """Return the indices of the next batch."""
        if self.position == SAMPLES:
            self.epoch, self.position = self.epoch + 1, 0
        draw = torch.Generator().manual_seed(1000 * self.seed + self.epoch)
        order = torch.randperm(SAMPLES, generator=draw).tolist()
        self.position += BATCH
        return order[self.position - BATCH : self.position]

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.seed, self.epoch, self.position = (state[k] for k in ("seed", "epoch", "position"))


class Run:
    """A network with dropout, trained in fp16 with AdamW, a cosine schedule and a loss scale.

    Parameters
    ----------
    total
        Steps of the whole run, at whose end the cosine schedule ends.
    seed
        Of weights and order.
    """

    def __init__(self, total: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.total, self.step, self.losses = total, 0, list[float]()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._share)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)
        self.sampler = Sampler(seed)
        draw = torch.Generator().manual_seed(7)
        self.x = torch.randn(SAMPLES, 8, generator=draw)
        self.y = self.x[:, :1] * self.x[:, 1:2] + 0.5

    def _share(self, step: int) -> float:
        return 0.5 * (1 + math.cos(math.pi * min(step, self.total) / self.total))

    def train(self, until: int) -> list[float]:
        """Take steps until `until` of them are done, and return the losses of these."""
        start, threads = len(self.losses), torch.get_num_threads()
        torch.set_num_threads(1)  # more would wait for each other in tensors this small
        while self.step < until:
            batch = self.sampler.next()
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                error = self.model(self.x[batch]) - self.y[batch]
            loss = error.float().square().mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.schedule.step()
            self.step += 1
            self.losses.append(loss.item())
        torch.set_num_threads(threads)
        return self.losses[start:]


def load(run: Run, saved: Mapping[str, Any]) -> Run:
    """Put whatever parts a checkpoint holds into a run; the others stay as a new run has them."""
    for part in ("model", "optimizer", "schedule", "scaler", "sampler"):
        if part in saved:
            getattr(run, part).load_state_dict(saved[part])
    if "step" in saved:
        run.step = saved["step"]
    if "rng" in saved:
        torch.set_rng_state(saved["rng"])
    return run


def train_and_die(save: Callable[[Run], Any], path: Path, every: int, at: int) -> None:
    """Train on a rank, saving now and then, until SIGKILL ends it in the middle of the run."""
    run = Run(40)
    while True:
        run.train(run.step + every)
        torch.save(save(run), path)
        if run.step >= at:
            os.kill(os.getpid(), signal.SIGKILL)


def write_half_and_die(path: Path, data: bytes) -> None:
    """Write over a file, and be killed when half of the bytes are there."""
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def upload_and_die(where: str) -> None:
    """Upload a file in parts, as a rank that is killed when one of the parts has arrived."""
    import fsspec

    file = fsspec.filesystem("s3").open(f"{where}/step-00000020/shared.pt", "wb", block_size=PART)
    file.write(bytes(PART + 1))  # one part leaves; the rest waits for the next
    os.kill(os.getpid(), signal.SIGKILL)
