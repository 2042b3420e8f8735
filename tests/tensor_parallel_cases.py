"""Tensor parallelism by hand beside the same layer in one process, in float64, on every rank.

A probe takes a case, runs both, and returns the largest difference between their outputs, the
gradients of their inputs, and the gradients of all parameters.
"""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.models import gpt
from dtlib.scratch import tensor_parallel as tp

P = 0.3  # dropout


@dataclass(frozen=True)
class Case:
    """The shapes of one comparison; `sequence` is sequence parallelism."""

    probe: str
    sequence: bool
    batch: int
    positions: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    seed: int

    @property
    def width(self) -> int:
        return self.heads * self.head_size

    @property
    def config(self) -> gpt.GPTConfig:
        return gpt.GPTConfig(self.vocabulary, self.positions, 2, self.heads, self.width)


def drawn(ranks: int, count: int, seed: int) -> list[Case]:
    """Each probe with and without sequence parallelism, everything else at random.

    The first two have ranks whose queries use more than one key, and keys that several ranks use.
    """
    draw = random.Random(f"{seed} {ranks}")
    shared = 12, 4 if ranks == 3 else 3, 3
    cases = [Case("attention", way, 2, ranks, *shared, ranks, 0) for way in (False, True)]
    for number in range(count):
        heads = ranks * draw.randint(1, 3)
        divisors = [k for k in range(1, heads + 1) if heads % k == 0]
        cases.append(
            Case(
                probe=list(PROBES)[number // 2 % len(PROBES)],
                sequence=number % 2 == 1,
                batch=draw.randint(1, 3),
                positions=ranks * draw.randint(1, 4),
                heads=heads,
                kv_heads=draw.choice(divisors),
                # from 3 on, since a norm of two numbers is ±1 whatever they are
                head_size=draw.randint(3, 5),
                vocabulary=draw.randint(ranks, 20),
                seed=number,
            )
        )
    return cases


def edges(case: Case) -> tp.Edges:
    return tp.SEQUENCE if case.sequence else tp.TENSOR


def mine(case: Case, whole: Tensor) -> Tensor:
    """What a rank holds outside of a region: all positions, or its own."""
    return whole.chunk(dist.get_world_size(), 1)[dist.get_rank()] if case.sequence else whole


def randn(case: Case, *sizes: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + case.seed)
    return torch.randn(*sizes, generator=generator, dtype=torch.float64)


def randomised(case: Case, module: nn.Module) -> nn.Module:
    """Parameters of size 1/2, biases and norms included: a start of zeros would hide mistakes."""
    generator = torch.Generator().manual_seed(case.seed)
    module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) / 2)
    return module


def far(a: Tensor, b: Tensor) -> float:
    """The largest difference, in units of the largest number of `b` or of 1.

    It is infinite where the shapes differ, or a difference is no number.
    """
    if a.shape != b.shape:
        return float("inf")
    apart = (a - b).detach().abs().max() / b.abs().max().clamp(min=1)
    return float(apart.nan_to_num(float("inf")))


def compared(
    case: Case, serial: nn.Module, cut: Callable[[nn.Module], nn.Module], x: Tensor
) -> float:
    """Run both forward and backward. The right gradients are cut as the weights were."""
    parallel = cut(serial)
    inside, outside = x.clone().requires_grad_(), mine(case, x).clone().requires_grad_()
    y, z = serial(inside), parallel(outside)
    gradient = randn(case, *y.shape)
    y.backward(gradient)
    z.backward(mine(case, gradient))
    tp.sum_partial(parallel)
    differences = [far(z, mine(case, y)), far(outside.grad, mine(case, inside.grad))]
    return max([*differences, *gradients_apart(parallel, serial, cut)])


def gradients_apart(
    parallel: nn.Module, serial: nn.Module, cut: Callable[[nn.Module], nn.Module]
) -> list[float]:
    right = copy.deepcopy(serial)
    for p, q in zip(right.parameters(), serial.parameters(), strict=True):
        p.data = torch.zeros_like(q) if q.grad is None else q.grad.clone()
    pairs = zip(parallel.parameters(), cut(right).parameters(), strict=True)
    return [far(torch.zeros_like(p) if p.grad is None else p.grad, q.detach()) for p, q in pairs]


class GroupedQueryAttention(nn.Module):
    """Grouped-query attention in one process, by torch's own."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.sizes = [case.width, *[case.kv_heads * case.head_size] * 2]
        self.head_size = case.head_size
        self.c_attn = nn.Linear(case.width, sum(self.sizes))
        self.c_proj = nn.Linear(case.width, case.width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.c_attn(x).split(self.sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, self.head_size)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


def with_dropout(model: nn.Module, p: float) -> nn.Module:
    """Let a serial model draw its masks of dropout as the parallel one does, from seed 5."""
    drop = tp.Dropout(p, torch.Generator().manual_seed(5))
    for module in model.modules():
        if isinstance(getattr(module, "drop", None), nn.Module):
            module.drop = drop
    return model


def of_mlp(case: Case) -> float:
    serial = randomised(case, gpt.MLP(case.config))
    x = randn(case, case.batch, case.positions, case.width)
    return compared(case, serial, lambda whole: tp.MLP(whole, edges(case)), x)


def of_linears(case: Case) -> float:
    """Column and row, whose inner width no number of ranks need divide."""
    pair = [nn.Linear(case.width, case.vocabulary), nn.Linear(case.vocabulary, case.width)]
    serial = randomised(case, nn.Sequential(*pair))
    x = randn(case, case.batch, case.positions, case.width)

    def cut(whole):
        first, second = whole
        both = tp.ColumnLinear(first, edges(case)), tp.RowLinear(second, edges(case))
        return nn.Sequential(*both)

    return compared(case, serial, cut, x)


def of_attention(case: Case) -> float:
    serial = randomised(case, GroupedQueryAttention(case))
    x = randn(case, case.batch, case.positions, case.width)

    def cut(whole):
        heads = case.heads, case.kv_heads
        return tp.Attention(whole.c_attn, whole.c_proj, *heads, edges=edges(case))

    return compared(case, serial, cut, x)


def of_block(case: Case) -> float:
    serial = with_dropout(randomised(case, gpt.Block(case.config)), P)
    x = randn(case, case.batch, case.positions, case.width)

    def cut(whole):
        drop = tp.Dropout(P, torch.Generator().manual_seed(5), edges(case))
        return tp.Block(whole, drop, edges(case))

    return compared(case, serial, cut, x)


def of_dropout(case: Case) -> float:
    """The ranks drop what one rank drops: about P of the elements; what is left grows."""
    x = randn(case, 8, case.positions, 100)
    serial, parallel = (
        tp.Dropout(P, torch.Generator().manual_seed(case.seed), way)
        for way in (tp.TENSOR, edges(case))
    )
    y = serial(x)
    z, again = parallel(mine(case, x)), parallel(mine(case, x))
    kept = y != 0
    rough = (
        abs(float(kept.double().mean()) - (1 - P)) > 0.07
    )  # 4 deviations of 800 elements or more
    fresh = torch.equal(z, again)  # another mask at every call
    drops_nothing = torch.equal(parallel.eval()(x), x)
    wrong = float("inf") if rough or fresh or not drops_nothing else 0.0
    return max(wrong, far(z, mine(case, y)), far(y[kept] * (1 - P), x[kept]))


def of_loss(case: Case) -> float:
    """Cross-entropy alone, of logits around 1000, too large to be exponentiated."""
    logits = 1000 + randn(case, case.batch, case.positions, case.vocabulary)
    inside, labels = logits.clone().requires_grad_(), labels_of(case)
    outside = tp.own(logits, -1).clone().requires_grad_()
    want = F.cross_entropy(inside.flatten(0, 1), labels.flatten(), reduction="none")
    first = tp.first_of_own(case.vocabulary)
    got = tp.vocabulary_cross_entropy(outside, labels, first)
    gradient = randn(case, case.batch, case.positions)
    want.view_as(got).backward(gradient)
    got.backward(gradient)
    # logits near 1000 are rounded a thousand times as coarsely as numbers near 1
    return max(far(got, want.view_as(got)), far(outside.grad, tp.own(inside.grad, -1))) / 1000


def of_gpt(case: Case) -> float:
    """The whole model: embedding, blocks, loss, and the norm of its gradient."""
    serial = with_dropout(randomised(case, gpt.GPT(case.config)), P)

    def cut(whole):
        return tp.TensorParallelGPT(whole, edges(case), P, seed=5).double()

    parallel, (tokens, labels) = cut(serial), (tokens_of(case), labels_of(case))
    want, got = serial(tokens, labels), parallel(tokens, labels)
    want.backward()
    got.backward()
    tp.sum_partial(parallel)
    apart = [far(got, want), *gradients_apart(parallel, serial, cut)]
    norm = nn.utils.clip_grad_norm_(serial.parameters(), 1.0)
    apart.append(far(tp.clip_global_norm(parallel, 1.0), norm))
    return max(*apart, *gradients_apart(parallel, serial, cut))


def tokens_of(case: Case) -> Tensor:
    generator = torch.Generator().manual_seed(2000 + case.seed)
    size = (case.batch, case.positions)
    return torch.randint(0, case.vocabulary, size, generator=generator)


def labels_of(case: Case) -> Tensor:
    """The next tokens, of which some do not count."""
    labels = tokens_of(case).roll(-1, 1)
    return labels.masked_fill(torch.arange(labels.numel()).view_as(labels) % 5 == 3, -100)


PROBES = {
    "linears": of_linears,
    "mlp": of_mlp,
    "attention": of_attention,
    "dropout": of_dropout,
    "loss": of_loss,
    "block": of_block,
    "gpt": of_gpt,
}


def apart(cases: list[Case]) -> list[float]:
    """The largest difference of each case, on this rank."""
    return [PROBES[case.probe](case) for case in cases]
