"""Train a small GPT cut over ranks beside a twin in one process, and keep the books: lesson 11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput
from dtlib.learn.wire import WireLog, elements_sent
from dtlib.measure.ledger.saved import SavedTensors
from dtlib.models import gpt
from dtlib.scratch import tensor_parallel as tp
from dtlib.sim.tensor_parallel import block_activations

Table = tuple[list[list[Any]], list[str], str]  # rows, columns, caption: for learn.table(*…)

WAYS = {"tensor": tp.TENSOR, "sequence": tp.SEQUENCE}
CLIP = 1.0  # the largest norm of a gradient
MOST_STEPS = 20  # AdamW is 1e-13 to 1e-11 from one process by then, 1e-9 after 45, and so on
OPTIMIZERS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-8),
}


@dataclass(frozen=True)
class Sizes:
    """A GPT of `layers` blocks, trained for `steps` steps by `ranks` ranks."""

    ranks: int = 4
    width: int = 48
    heads: int = 12
    steps: int = 4
    layers: int = 2
    words: int = 31
    batch: int = 2
    positions: int = 24

    def __post_init__(self) -> None:
        """Refuse what cannot be cut, in one sentence."""
        if self.ranks < 2:
            raise BadInput(f"ranks = {self.ranks} cuts nothing: take 2 or more.")
        for name, many in (("heads", self.heads), ("positions of a sequence", self.positions)):
            if many % self.ranks:
                raise BadInput(
                    f"ranks = {self.ranks} does not divide {many} {name}: take a number that "
                    f"divides {self.heads} heads and {self.positions} positions."
                )
        if self.width % self.heads:
            raise BadInput(
                f"heads = {self.heads} does not divide width = {self.width}: take a width that is "
                f"a multiple of {self.heads}."
            )
        if not 1 <= self.steps <= MOST_STEPS:
            raise BadInput(
                f"steps = {self.steps} is not between 1 and {MOST_STEPS}: later on AdamW has made "
                "rounding errors so large that a comparison to the last digits proves nothing."
            )

    def model(self) -> gpt.GPT:
        """The model at its start, the same wherever it is made."""
        shape = (self.words, self.positions, self.layers, self.heads, self.width)
        return gpt.GPT(gpt.GPTConfig(*shape), seed=11)

    def text(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and next tokens of a step, each [batch, positions]."""
        generator = torch.Generator().manual_seed(step)
        size = (self.batch, self.positions + 1)
        tokens = torch.randint(0, self.words, size, generator=generator)
        return tokens[:, :-1], tokens[:, 1:]


@dataclass
class Books:
    """What one way to train did: of each number, the largest of all ranks.

    Attributes
    ----------
    far
        By optimizer, the largest distance of a weight from the twin's after each step.
    parameters, cut, held
        Of the whole model, those of them that are cut, and what a rank holds.
    calls, sent
        Collectives of a step by name, and the elements that a rank sends in it.
    kept
        Bytes that a block keeps for backward, in fp32.
    mlp
        The collectives that a rank calls in forward and in backward of an MLP.
    """

    parameters: int
    cut: int
    held: int
    calls: dict[str, int]
    sent: float
    kept: float
    mlp: tuple[list[str], list[str]]
    far: dict[str, list[float]] = field(default_factory=dict)

    @property
    def all_reduces(self) -> int:
        return self.calls["all_reduce"]


def worst(found: Mapping[str, Books]) -> float:
    """The largest distance from the twin of all ways, optimizers and steps."""
    return max(max(far) for books in found.values() for far in books.far.values())


def run(sizes: Sizes) -> dict[str, Books]:
    """Train with and without sequence parallelism on real ranks, with both optimizers."""
    from dtlib.ranks.launcher import launch

    by_rank = launch(_on_rank, sizes, ranks=sizes.ranks, device="cpu", show=False)
    found = {}
    for way in WAYS:
        of_ranks = [rank[way] for rank in by_rank]
        books = of_ranks[0]
        books.held = max(one.held for one in of_ranks)
        books.sent = max(one.sent for one in of_ranks)
        for kind in OPTIMIZERS:
            steps = zip(*(one.far[kind] for one in of_ranks), strict=True)
            books.far[kind] = [max(step) for step in steps]
        found[way] = books
    return found


def _mlp(edges: tp.Edges) -> tuple[list[str], list[str]]:
    mlp = tp.MLP(gpt.MLP(gpt.GPTConfig(heads=1, width=8)), edges)
    with WireLog() as forward:
        y = mlp(torch.ones(1, 2, 8, requires_grad=True))
    with WireLog() as backward:
        y.sum().backward()
    return [m.kind for m in forward.messages], [m.kind for m in backward.messages]


def _on_rank(sizes: Sizes) -> dict[str, Books]:
    return {way: _books(sizes, edges) for way, edges in WAYS.items()}


def _books(sizes: Sizes, edges: tp.Edges) -> Books:
    model = tp.TensorParallelGPT(sizes.model(), edges)
    with WireLog() as log:
        _backward(model, sizes, 0)
        tp.clip_global_norm(model, CLIP)
    calls = [message.kind for message in log.messages]
    held = sum(p.numel() for p in model.parameters())
    whole = sum(p.numel() for p in model.parameters() if not isinstance(p, tp.Cut))
    parameters = sum(p.numel() for p in sizes.model().parameters())
    books = Books(
        parameters=parameters, cut=parameters - whole, held=held,
        calls={kind.removesuffix("_tensor").removesuffix("_into"): calls.count(kind)
               for kind in sorted({*calls})},
        sent=elements_sent(log.messages, sizes.ranks),
        kept=_kept(model, sizes, edges), mlp=_mlp(edges),
    )  # fmt: skip
    books.far = {kind: _train(kind, sizes, edges) for kind in OPTIMIZERS}
    return books


def _backward(model: nn.Module, sizes: Sizes, step: int) -> None:
    loss = model(*sizes.text(step)) / (sizes.batch * sizes.positions)
    loss.backward()
    tp.sum_partial(model)


def _train(kind: str, sizes: Sizes, edges: tp.Edges) -> list[float]:
    """The largest distance from the twin after each step, in fp64."""
    twin = sizes.model().double()
    model = tp.TensorParallelGPT(twin, edges).double()
    ours, theirs = (OPTIMIZERS[kind](one.parameters()) for one in (model, twin))
    far = []
    for step in range(sizes.steps):
        for one, optimizer in ((model, ours), (twin, theirs)):
            optimizer.zero_grad()
            _backward(one, sizes, step)
        tp.clip_global_norm(model, CLIP)
        nn.utils.clip_grad_norm_(twin.parameters(), CLIP)
        ours.step()
        theirs.step()
        right = dict(tp.TensorParallelGPT(twin, edges).named_parameters())
        compared = {name: p for name, p in model.named_parameters()
                    if kind == "SGD" or not name.endswith("attn.key.bias")}  # fmt: skip
        far.append(max(float((p - right[name]).abs().max()) for name, p in compared.items()))
    return far


def _kept(model: tp.TensorParallelGPT, sizes: Sizes, edges: tp.Edges) -> float:
    """Bytes that autograd keeps of the first block, without its weights."""
    positions = sizes.positions // (sizes.ranks if edges is tp.SEQUENCE else 1)
    x = torch.randn(sizes.batch, positions, sizes.width, requires_grad=True)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    with SavedTensors(lambda storage: storage.data_ptr() in weights) as saved:
        y = model.h[0](x)
    del y
    assert dist.get_world_size() == sizes.ranks
    return saved.most


def distances(found: Mapping[str, Books]) -> Table:
    """A row for each way and optimizer: how far the weights are from one process's, by step."""
    rows = [
        [way, kind, *(f"{value:.0e}" for value in far)]
        for way, books in found.items()
        for kind, far in books.far.items()
    ]
    steps = [f"step {k + 1}" for k in range(len(rows[0]) - 2)]
    return (rows, ["", "", *steps], "Largest distance of a weight from one process's, fp64")


def held_and_sent(found: Mapping[str, Books]) -> Table:
    """What a rank holds, and what it calls and sends in a step."""
    rows = [
        [way, books.parameters, books.cut, books.held, books.sent,
         ", ".join(f"{times} {kind}" for kind, times in books.calls.items())]
        for way, books in found.items()
    ]  # fmt: skip
    columns = ["", "parameters", "of them cut", "held by a rank", "elements sent", "calls"]
    return (rows, columns, "A model, and a rank of it in one step")


def activations(found: Mapping[str, Books], sizes: Sizes) -> Table:
    """What a block keeps for backward: measured, by the formula, and on one rank."""
    size = sizes.positions, sizes.batch, sizes.width, sizes.heads, "fp32"
    alone = block_activations(*size, 1)
    rows: list[list[Any]] = [["one rank", "", alone, ""]]
    for way, books in found.items():
        predicted = block_activations(*size, sizes.ranks, way == "sequence")
        rows.append([way, books.kept, predicted, books.sent])
    columns = ["", "bytes kept, measured", "by the formula", "elements sent in a step"]
    return (rows, columns, f"One block of the GPT, and what a rank of {sizes.ranks} sends")
