"""Local SGD, DiLoCo and PowerSGD on ranks, beside N workers that one process simulates.

The simulation shares no code with the kernels: it takes means over a list of models, writes the
outer optimizer out, and orthogonalises as Gram and Schmidt did.
"""

import copy
import random
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.scratch import local_steps as ls
from tests.scratch_cases import batch, flat, mlp, optimizer

FULL = 100  # a rank that no matrix here has


@dataclass(frozen=True)
class Case:
    """One comparison; H is `every`, r is `rank`, η and μ are those of DiLoCo's outer optimizer."""

    kind: str  # "local", "diloco" or "power"
    optimizer: str  # "sgd" has momentum, "plain" has none
    every: int
    rank: int
    lr: float
    momentum: float
    widths: tuple[int, ...]
    kernel: bool
    samples: int  # of a rank
    steps: int
    resumed: int  # the step after which everything is loaded anew
    halves: bool  # two groups of ranks, which know nothing of each other
    whole: bool  # compared with one process and the global batch, too
    frozen: bool


def drawn(ranks: int, count: int, seed: int) -> list[Case]:
    """Each kind with each optimizer, everything else at random; then what equals data parallel."""
    draw = random.Random(f"{seed} {ranks}")
    cases = []
    for number in range(count):
        cases.append(
            Case(
                kind=("local", "diloco", "power")[number % 3],
                optimizer=("sgd", "adamw")[number // 3 % 2],
                every=draw.randint(1, 4),
                rank=draw.randint(1, 3),
                lr=draw.choice([0.5, 0.7, 1.0]),
                momentum=draw.choice([0.0, 0.6, 0.9]),
                # from 3 on, since a norm of two numbers is ±1 whatever they are
                widths=tuple(draw.randint(3, 7) for _ in range(draw.randint(2, 4))),
                kernel=number // 6 % 3 == 2,
                samples=draw.randint(3, 5),
                steps=draw.randint(5, 8),
                resumed=draw.randint(1, 4),
                halves=ranks > 2 and number // 6 % 2 == 1,
                whole=False,
                frozen=number % 5 == 4,
            )
        )
    same = {"every": 1, "lr": 1.0, "momentum": 0.0, "rank": FULL, "whole": True, "frozen": False}
    equal = [replace(case, optimizer="plain", **same) for case in cases[:3]]
    return [*cases, *equal, replace(cases[5], optimizer="adamw", **same)]


def model_of(case: Case) -> nn.Module:
    model: nn.Module = mlp([*case.widths])
    if case.kernel:
        torch.manual_seed(1)
        kernel = nn.Conv2d(2, 4, 2).double().to(memory_format=torch.channels_last)
        model = nn.Sequential(kernel, nn.Flatten(), nn.Linear(4, case.widths[0]).double(), model)
    if case.frozen:
        next(model.parameters()).requires_grad_(False)
    return model


def trainer(case: Case, model: nn.Module) -> torch.optim.Optimizer:
    if case.optimizer == "plain":
        return torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer(case.optimizer, model)


def samples_of(case: Case, step: int, worker: int) -> tuple[Tensor, Tensor]:
    x, y = batch(case.widths[0], case.widths[-1], case.samples, 100 * step + worker)
    if case.kernel:
        generator = torch.Generator().manual_seed(100 * step + worker)
        x = torch.randn(case.samples, 2, 2, 2, generator=generator, dtype=torch.float64)
    return x, y


def backward(case: Case, model: nn.Module, step: int, worker: int) -> None:
    x, y = samples_of(case, step, worker)
    F.mse_loss(model(x), y).backward()


# --- N workers in one process -----------------------------------------------------------------


def gram_schmidt(p: Tensor) -> Tensor:
    """Each column, less what it has in common with those before it, at length 1; done twice."""
    columns: list[Tensor] = []
    for column in p.unbind(1):
        for _ in range(2):
            for before in columns:
                column = column - (before @ column) * before
        columns.append(column / column.norm())
    return torch.stack(columns, 1)


def wide(g: Tensor) -> Tensor:
    matrix = g.flatten(1)
    return matrix.T if matrix.shape[0] > matrix.shape[1] else matrix


class Simulated:
    """All workers of a group as a list of models, with the memory of each."""

    def __init__(self, case: Case, workers: list[int]) -> None:
        self.case, self.workers = case, workers
        self.models = [model_of(case) for _ in workers]
        self.trainers = [trainer(case, model) for model in self.models]
        self.trained = [[p for p in m.parameters() if p.requires_grad] for m in self.models]
        self.start = [p.detach().clone() for p in self.trained[0]]
        self.velocity = [torch.zeros_like(p) for p in self.start]
        self.errors = [[torch.zeros_like(p) for p in self.start] for _ in workers]
        self.right: dict[int, Tensor] = {}

    def run(self) -> None:
        for step in range(self.case.steps):
            for model, worker in zip(self.models, self.workers, strict=True):
                backward(self.case, model, step, worker)
            with torch.no_grad():
                if self.case.kind == "power":
                    self.compress()
                for one in self.trainers:
                    one.step()
                    one.zero_grad()
                if self.case.kind != "power" and (step + 1) % self.case.every == 0:
                    self.meet()

    def meet(self) -> None:
        """The mean of the weights; under DiLoCo a step of Nesterov's towards it."""
        for i, theta in enumerate(self.start):
            mean = torch.stack([params[i] for params in self.trained]).mean(0)
            if self.case.kind == "diloco":
                delta, mu = theta - mean, self.case.momentum
                self.velocity[i] = mu * self.velocity[i] + delta
                mean = theta - self.case.lr * (delta + mu * self.velocity[i])
                self.start[i] = mean.clone()
            for params in self.trained:
                params[i].copy_(mean)

    def compress(self) -> None:
        matrices = 0
        for i, theta in enumerate(self.start):
            grads = torch.stack([params[i].grad for params in self.trained])
            applied = grads.mean(0)
            if theta.dim() >= 2:
                wanted = [g + e[i] for g, e in zip(grads, self.errors, strict=True)]
                mean = wide(torch.stack(wanted).mean(0))
                if matrices not in self.right:
                    generator = torch.Generator().manual_seed(matrices)
                    sizes = mean.shape[1], min(self.case.rank, mean.shape[0])
                    random_one = torch.randn(sizes, generator=generator, dtype=torch.float64)
                    self.right[matrices] = random_one
                p = gram_schmidt(mean @ self.right[matrices])
                self.right[matrices] = mean.T @ p
                matrices += 1

                def projected(m, p=p):
                    near = p @ p.T @ wide(m)
                    return (near if wide(m).shape == m.flatten(1).shape else near.T).reshape(
                        m.shape
                    )

                applied = projected(torch.stack(wanted).mean(0))
                for memory, m in zip(self.errors, wanted, strict=True):
                    memory[i] = m - projected(m)
            for params in self.trained:
                params[i].grad = applied.clone()


def one_process(case: Case, workers: list[int]) -> nn.Module:
    """Data parallel's right answer: one model, the batch of all workers."""
    model = model_of(case)
    steps = trainer(case, model)
    for step in range(case.steps):
        parts = [samples_of(case, step, worker) for worker in workers]
        x, y = (torch.cat(part) for part in zip(*parts, strict=True))
        F.mse_loss(model(x), y).backward()
        steps.step()
        steps.zero_grad()
    return model


# --- on ranks ----------------------------------------------------------------------------------


class Trained:
    """A rank of the kernels."""

    def __init__(self, case: Case, group: dist.ProcessGroup | None) -> None:
        self.case, self.model = case, model_of(case)
        if dist.get_rank(group):  # the first rank's weights count
            with torch.no_grad():
                for p in self.model.parameters():
                    p += 1
        self.trainer = trainer(case, self.model)
        made = {
            "local": lambda: ls.LocalSGD(self.model, self.trainer, case.every, group),
            "diloco": lambda: ls.DiLoCo(
                self.model, self.trainer, case.every, case.lr, case.momentum, group
            ),
            "power": lambda: ls.PowerSGD(self.model, case.rank, group),
        }
        if case.kind == "power":  # it is about gradients: its ranks start alike
            self.model.load_state_dict(model_of(case).state_dict())
        self.kernel = made[case.kind]()

    def step(self, number: int, worker: int) -> list[Tensor]:
        """One step; the gradients before and after the kernel has seen them."""
        backward(self.case, self.model, number, worker)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        before = [p.grad.clone() for p in trained]
        if self.case.kind == "power":
            self.kernel.reduce()
            self.trainer.step()
        else:
            self.kernel.step()
        lost = [b - p.grad for b, p in zip(before, trained, strict=True)]
        self.trainer.zero_grad()
        return lost

    def saved(self) -> dict:
        parts = {"model": self.model, "trainer": self.trainer, "kernel": self.kernel}
        return copy.deepcopy({name: part.state_dict() for name, part in parts.items()})

    def load(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.trainer.load_state_dict(state["trainer"])
        self.kernel.load_state_dict(state["kernel"])


GROUPS: dict[int, tuple[list[int], dist.ProcessGroup | None]] = {}


def mine(halves: bool) -> tuple[list[int], dist.ProcessGroup | None]:
    """The ranks of this rank's group, and the group; made once, by all ranks together."""
    n = dist.get_world_size()
    if not halves:
        return list(range(n)), None
    if not GROUPS:
        for members in (list(range(n - 2)), list(range(n - 2, n))):
            group = dist.new_group(members)
            GROUPS.update((rank, (members, group)) for rank in members)
    return GROUPS[dist.get_rank()]


def far(a: Tensor, b: Tensor) -> float:
    """The largest difference; infinite where one is no number, or shapes differ."""
    if a.shape != b.shape:
        return float("inf")
    return float((a - b).detach().abs().max().nan_to_num(float("inf"))) if a.numel() else 0.0


def apart(case: Case) -> float:
    """The largest difference of anything, on this rank."""
    workers, group = mine(case.halves)
    me = dist.get_rank()
    ours, lost = Trained(case, group), None
    for step in range(case.steps):
        if step == case.resumed:
            state = ours.saved()
            ours = Trained(case, group)
            ours.load(state)
        more = ours.step(step, me)
        lost = more if lost is None else [a + b for a, b in zip(lost, more, strict=True)]
    theirs = Simulated(case, workers)
    theirs.run()
    here = workers.index(me)
    gaps = [far(flat(ours.model), flat(theirs.models[here]))]
    if case.whole:
        gaps.append(far(flat(ours.model), flat(one_process(case, workers))))
    if case.kind == "power":
        right = [e for e in theirs.errors[here] if e.dim() >= 2]
        gaps += [far(a, wide(b)) for a, b in zip(ours.kernel.errors, right, strict=True)]
        gaps += conserved(lost, ours.kernel.errors, group)
        gaps += alike([*ours.kernel.right, flat(ours.model)], group)
    elif case.steps % case.every == 0:
        gaps += alike([flat(ours.model)], group)
    if case.kind == "diloco":
        outer = ours.kernel.outer.state.values()
        moving = [s["momentum_buffer"] for s in outer if s.get("momentum_buffer") is not None]
        gaps += [far(a, b) for a, b in zip(moving, theirs.velocity, strict=False)]
        gaps += alike(ours.kernel.start, group)
    return max(gaps)


def conserved(lost: list[Tensor], errors: list[Tensor], group: dist.ProcessGroup | None) -> list:
    """The mean of what the ranks' gradients have lost in all steps is the mean of their errors."""
    gaps, matrices = [], iter(errors)
    for of_one in lost:
        total, left = of_one.clone(), torch.zeros_like(of_one)
        if of_one.dim() >= 2:
            total, left = wide(of_one).contiguous(), next(matrices).clone()
        dist.all_reduce(total, group=group)
        dist.all_reduce(left, group=group)
        gaps.append(far(total, left))
    return gaps


def alike(tensors: list[Tensor], group: dist.ProcessGroup | None) -> list[float]:
    """0 for each tensor that has the same bits on all ranks."""
    gaps = []
    for tensor in tensors:
        every = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(every, tensor.detach().contiguous(), group=group)
        gaps.append(0.0 if all(torch.equal(one, tensor) for one in every) else float("inf"))
    return gaps
