"""Train a small GPT on meshes of real ranks beside a twin in one process: lesson 13's runs.

One program serves all meshes: an axis of size 1 is a group of one rank, which sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput
from dtlib.learn.wire import Message, WireLog, elements_sent
from dtlib.models import gpt
from dtlib.scratch import pipeline as p
from dtlib.scratch import tensor_parallel as tp
from dtlib.scratch.mesh import Mesh, make_groups

Table = tuple[list[list[Any]], list[str], str]  # rows, columns, caption: for learn.table(*…)
Sync = Callable[[Sequence[tuple[str, torch.Tensor]], Any, Any], None]

AXES = ("data", "pipeline", "tensor")
RATE, MOMENTUM = 0.1, 0.9  # SGD: AdamW would hide a gradient that is twice too large


@dataclass(frozen=True)
class Sizes:
    """A GPT of `layers` blocks, trained for `steps` steps."""

    width: int = 24
    heads: int = 4
    steps: int = 3
    layers: int = 2
    words: int = 21
    batch: int = 8
    positions: int = 12
    micro_batches: int = 2

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadInput(f"steps = {self.steps}: take 1 or more.")

    def model(self) -> gpt.GPT:
        """The model at its start, the same wherever it is made."""
        shape = (self.words, self.positions, self.layers, self.heads, self.width)
        return gpt.GPT(gpt.GPTConfig(*shape), seed=13).double()

    def text(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and next tokens of a step's global batch, each [batch, positions]."""
        generator = torch.Generator().manual_seed(step)
        size = (self.batch, self.positions + 1)
        tokens = torch.randint(0, self.words, size, generator=generator)
        return tokens[:, :-1], tokens[:, 1:]


@dataclass
class Books:
    """What training on one mesh did: of each number, the largest of all ranks.

    Attributes
    ----------
    far
        The largest distance of a weight from the twin's after each step.
    norms
        The norm of the whole gradient in the first step, on this mesh and in one process.
    held
        Parameters that a rank holds.
    sent
        Elements that a rank sends in a step, by axis.
    """

    far: list[float]
    norms: tuple[float, float]
    held: int
    sent: dict[str, float]


class Member:
    """One rank of a mesh: its groups, its part of the model, and its step.

    Parameters
    ----------
    mesh, sizes
        The mesh, and the model and its batch.
    edges
        `tp.TENSOR`, or `tp.SEQUENCE` for sequence parallelism along the tensor axis.
    """

    def __init__(self, mesh: Mesh, sizes: Sizes, edges: tp.Edges) -> None:
        self.mesh, self.sizes = mesh, sizes
        self.at = mesh.coordinates(dist.get_rank())
        self.groups = {axis: make_groups(mesh, axis) for axis in AXES}
        self.edges = edges.within(self.groups["tensor"])
        model = self.part_of(sizes.model())
        lists = p.for_all_ranks(p.one_forward_one_backward, mesh.pipeline, sizes.micro_batches)
        blocks, first = model.blocks(), model.wte.first
        self.worker = p.Pipeline(
            blocks, lists, lambda x, y: self.loss_sum(x, y, first), group=self.groups["pipeline"]
        )
        own = {*self.worker.parameters()}
        self.mine = {name: q for name, q in model.named_parameters() if q in own}

    def part_of(self, whole: gpt.GPT) -> tp.TensorParallelGPT:
        """This rank's slice of a model, of all its stages."""
        return tp.TensorParallelGPT(whole, self.edges).double()

    def loss_sum(self, logits: torch.Tensor, labels: torch.Tensor, first: int) -> torch.Tensor:
        group = self.groups["tensor"]
        return tp.vocabulary_cross_entropy(logits, labels, first, group).sum()

    def gradients(self) -> list[tuple[str, torch.Tensor]]:
        """The kind and the gradient of each parameter of this rank."""
        return [(kind_of(q), q.grad) for q in self.mine.values() if q.grad is not None]

    def backward(self, step: int, sync: Sync) -> None:
        """The gradient of this rank's parameters over the whole batch."""
        own = slice(self.at["data"], None, self.mesh.data)
        tokens, labels = (x[own] for x in self.sizes.text(step))
        for q in self.mine.values():
            q.grad = None
        self.worker.step(tokens, labels, labels.numel())
        sync(self.gradients(), self.groups["data"], self.groups["tensor"])


def kind_of(parameter: nn.Parameter) -> str:
    """How the tensor axis treats it: `cut`, `partial` or `whole`."""
    if isinstance(parameter, tp.Cut):
        return "cut"
    return "partial" if isinstance(parameter, tp.Partial) else "whole"


def run(meshes: Sequence[Mesh], sizes: Sizes, sync: Sync) -> dict[str, Books]:
    """Train on each mesh, all in one launch, with and without sequence parallelism.

    Parameters
    ----------
    sync
        Completes the gradients of a rank, given their kinds and the groups of data and tensor.
    """
    from dtlib.ranks.launcher import launch

    ranks = meshes[0].ranks
    by_rank = launch(_on_rank, meshes, sizes, sync, ranks=ranks, device="cpu", show=False)
    found = {}
    for name, several in zip(by_rank[0], zip(*(r.values() for r in by_rank), strict=True),
                             strict=True):  # fmt: skip
        found[name] = Books(
            [max(step) for step in zip(*(one.far for one in several), strict=True)],
            several[0].norms,
            max(one.held for one in several),
            {axis: max(one.sent[axis] for one in several) for axis in AXES},
        )
    return found


def _on_rank(meshes: Sequence[Mesh], sizes: Sizes, sync: Sync) -> dict[str, Books]:
    found = {}
    for mesh in meshes:
        for edges in (tp.TENSOR, tp.SEQUENCE)[: 1 + (mesh.tensor > 1)]:
            name = f"{mesh}, sequence" if edges.sequence else str(mesh)
            found[name] = _train(Member(mesh, sizes, edges), sync)
    return found


def _train(member: Member, sync: Sync) -> Books:
    twin = member.sizes.model()
    mine, theirs = (
        torch.optim.SGD(q, lr=RATE, momentum=MOMENTUM)
        for q in (list(member.mine.values()), twin.parameters())
    )
    far, sent = [], {}
    for step in range(member.sizes.steps):
        with WireLog() as log:
            member.backward(step, sync)
        twin.zero_grad()
        tokens, labels = member.sizes.text(step)
        (twin(tokens, labels) / labels.numel()).backward()
        if step == 0:
            sent = by_axis(log.messages, member)
            norms = (norm_of(member), float(_norm(twin.parameters())))
        mine.step()
        theirs.step()
        right = dict(member.part_of(twin).named_parameters())
        far.append(max(float((q - right[n]).detach().abs().max()) for n, q in member.mine.items()))
    return Books(far, norms, sum(q.numel() for q in member.mine.values()), sent)


def _norm(parameters: Any) -> torch.Tensor:
    return torch.stack([q.grad.norm() for q in parameters]).norm()


def norm_of(member: Member) -> float:
    """The norm of the whole gradient, in which every parameter counts once."""
    square = torch.zeros((), dtype=torch.float64)
    at, last = member.at, member.mesh.pipeline - 1
    for name, q in member.mine.items():
        again = name == "wte.weight" and last and at["pipeline"] == last
        if q.grad is not None and not again and (kind_of(q) == "cut" or at["tensor"] == 0):
            square += q.grad.square().sum()
    for axis in ("tensor", "pipeline"):
        dist.all_reduce(square, group=member.groups[axis])
    return float(square.sqrt())


def by_axis(messages: Sequence[Message], member: Member) -> dict[str, float]:
    """Elements that a rank sent, by the axis along which they went."""
    of_axis = {tuple(dist.get_process_group_ranks(member.groups[axis])): axis for axis in AXES}
    sent = dict.fromkeys(AXES, 0.0)
    for message in messages:
        if len(message.ranks) > 1:
            sent[of_axis[message.ranks]] += elements_sent([message], 1)
    return sent


def worst(found: dict[str, Books]) -> float:
    """The largest distance from the twin, of all meshes and steps."""
    return max(max(books.far) for books in found.values())


def distances(found: dict[str, Books]) -> Table:
    """A row for each mesh: how far the weights are from one process's, by step."""
    rows = [[name, *(f"{value:.0e}" for value in books.far)] for name, books in found.items()]
    steps = [f"step {k + 1}" for k in range(len(rows[0]) - 1)]
    return (rows, ["mesh", *steps], "Largest distance of a weight from one process's, fp64")


def held_and_sent(found: dict[str, Books], sizes: Sizes) -> Table:
    """What a rank of each mesh holds, and what it sends in a step along each axis."""
    whole = sum(q.numel() for q in sizes.model().parameters())
    rows = [
        [name, f"{books.held / whole:.0%}", *(f"{books.sent[axis]:.0f}" for axis in AXES)]
        for name, books in found.items()
    ]
    columns = ["mesh", "parameters held", *(f"elements sent along {axis}" for axis in AXES)]
    return (rows, columns, f"A rank in one step; the model has {whole} parameters")


def norms(found: dict[str, Books]) -> Table:
    """The norm of the first step's gradient on each mesh, and how far it is from one process's."""
    rows: list[list[Any]] = [["one process", f"{next(iter(found.values())).norms[1]:.6f}", ""]]
    for name, books in found.items():
        ours, alone = books.norms
        rows.append([name, f"{ours:.6f}", f"{abs(ours - alone):.0e}"])
    return (rows, ["mesh", "norm", "difference"], "Norm of the whole gradient in the first step")
