"""Context parallelism by hand beside the same model in one process, in float64, on every rank.

A probe takes a case, runs both, and returns the largest difference between their outputs, the
gradients of their inputs, and the gradients of all parameters.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.models import gpt
from dtlib.scratch import context_parallel as cp
from dtlib.scratch import gradients
from dtlib.scratch.context_parallel import ring
from dtlib.sim import context_parallel as sim
from tests.tensor_parallel_cases import GroupedQueryAttention, far, labels_of, randomised, tokens_of


@dataclass(frozen=True)
class Case:
    """The shapes of one comparison; `split` lets even and odd ranks work apart, in two groups."""

    probe: str
    kind: str
    split: bool
    batch: int
    chunk: int  # positions in each of 2N
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    number: int

    @property
    def n(self) -> int:
        return dist.get_world_size(group_of(self))

    @property
    def seed(self) -> int:
        """Each group computes with numbers of its own: what leaks from one to another is wrong."""
        return 2 * self.number + (self.split and dist.get_rank() % 2)

    @property
    def positions(self) -> int:
        return 2 * self.n * self.chunk

    @property
    def width(self) -> int:
        return self.heads * self.head_size

    @property
    def config(self) -> gpt.GPTConfig:
        return gpt.GPTConfig(self.vocabulary, self.positions + 1, 2, self.heads, self.width)


@cache
def _halves() -> list[dist.ProcessGroup]:
    ranks = range(dist.get_world_size())
    return [dist.new_group([r for r in ranks if r % 2 == half]) for half in (0, 1)]


def group_of(case: Case) -> dist.ProcessGroup | None:
    return _halves()[dist.get_rank() % 2] if case.split else None


def drawn(ranks: int, count: int, seed: int) -> list[Case]:
    """Each probe with each kind, in the world and in two groups, everything else at random."""
    draw = random.Random(f"{seed} {ranks}")
    cases = []
    for number in range(count):
        kind = sim.KINDS[number % len(sim.KINDS)]
        probe = list(PROBES)[number // len(sim.KINDS) % len(PROBES)]
        split = probe == "mesh" or number // (len(sim.KINDS) * len(PROBES)) % 2 == 1
        # Ulysses divides the heads of keys and values; half a world has at most two ranks
        divided = (2 if split else ranks) if kind == "ulysses" else 1
        kv_heads = draw.randint(1, 2) * divided
        cases.append(
            Case(
                probe=probe,
                kind=kind,
                split=split,
                batch=draw.randint(1, 2),
                chunk=draw.randint(1, 3),
                heads=kv_heads * draw.randint(1, 3),
                kv_heads=kv_heads,
                head_size=draw.randint(3, 5),
                vocabulary=draw.randint(3, 20),
                number=number,
            )
        )
    return cases


def mine(case: Case, whole: Tensor, dim: int = 1) -> Tensor:
    """This rank's positions of a tensor."""
    own = cp.own_positions(case.positions, case.kind == "zigzag", group_of(case))
    return whole.index_select(dim, own)


def randn(case: Case, *sizes: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 + case.seed)
    return torch.randn(*sizes, generator=generator, dtype=torch.float64)


def heads_of(case: Case) -> list[Tensor]:
    """Queries, keys and values of the whole sequence."""
    b, s, d = case.batch, case.positions, case.head_size
    sizes = [case.heads, case.kv_heads, case.kv_heads]
    return list(randn(case, b, sum(sizes), s, d).split(sizes, 1))


def attended(case: Case, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if case.kind == "ulysses":
        return cp.ulysses_attention(q, k, v, group_of(case))
    return cp.ring_attention(q, k, v, case.kind == "zigzag", group_of(case))


@contextmanager
def counted_scores() -> Iterator[list[int]]:
    """A list that gets, at the end, how many scores ring attention has computed, if any."""
    blocks: list[int] = []
    total: list[int] = []

    def counted(*args):
        scores = cp.scores_of(*args)
        blocks.append(scores.numel())
        return scores

    with mock.patch.object(ring, "scores_of", counted):
        yield total
    total.append(sum(blocks))


def work(case: Case) -> int:
    """Scores that this rank should compute, of all heads and samples."""
    rank = dist.get_rank(group_of(case))
    of_head = sim.scores(case.positions, rank, case.n, case.kind == "zigzag")
    return of_head * case.batch * case.heads


def of_kernel(case: Case) -> float:
    """Attention alone, with scores up to a thousand: too large to be exponentiated as they are."""
    q, k, v = heads_of(case)
    inside = [x.clone().requires_grad_() for x in (100 * q, 5 * k, v)]
    outside = [mine(case, x.detach(), 2).clone().requires_grad_() for x in inside]
    want = F.scaled_dot_product_attention(*inside, is_causal=True, enable_gqa=True)
    with counted_scores() as computed:
        got = attended(case, *outside)
    gradient = randn(case, *want.shape)
    want.backward(gradient)
    got.backward(mine(case, gradient, 2))
    pairs = zip(outside, inside, strict=True)
    gaps = [far(got, mine(case, want, 2)), *(far(a.grad, mine(case, b.grad, 2)) for a, b in pairs)]
    if case.kind != "ulysses" and computed != [work(case)]:
        return float("inf")
    # scores near 1000 are rounded a thousand times as coarsely as numbers near 1
    return max(gaps) / 1000


def of_attention(case: Case) -> float:
    """The layer, with grouped-query attention; the weights' gradients are summed."""
    serial = randomised(case, GroupedQueryAttention(case))
    parallel = cp.Attention(
        copy.deepcopy(serial.c_attn), copy.deepcopy(serial.c_proj),
        case.heads, case.kv_heads, case.kind, group_of(case),
    )  # fmt: skip
    x = randn(case, case.batch, case.positions, case.width)
    inside, outside = x.clone().requires_grad_(), mine(case, x).clone().requires_grad_()
    y, z = serial(inside), parallel(outside)
    gradient = randn(case, *y.shape)
    y.backward(gradient)
    z.backward(mine(case, gradient))
    gradients.sum_gradients(parallel.parameters(), group_of(case))
    gaps = [far(z, mine(case, y)), far(outside.grad, mine(case, inside.grad))]
    return max([*gaps, *gradients_apart(parallel, serial)])


def gradients_apart(parallel: nn.Module, serial: nn.Module) -> list[float]:
    pairs = zip(parallel.named_parameters(), serial.named_parameters(), strict=True)
    return [float("inf") if a != b else far(p.grad, q.grad) for (a, p), (b, q) in pairs]


def of_gpt(case: Case) -> float:
    """The whole model: embeddings, blocks, and the mean loss of the labels that count."""
    serial = randomised(case, gpt.GPT(case.config))
    parallel = cp.ContextParallelGPT(serial, case.kind, group_of(case))
    tokens, labels = tokens_of(case), labels_of(case)
    labels[:, : case.chunk] = -100  # some ranks have fewer labels that count
    want = serial(tokens, labels) / (labels >= 0).sum()
    got = parallel(tokens, labels)
    want.backward()
    got.term.backward()
    gradients.sum_gradients(parallel.parameters(), group_of(case))
    terms = got.term.detach().clone()
    dist.all_reduce(terms, group=group_of(case))
    gaps = [far(got.mean, want), far(terms, want)]
    return max([*gaps, *gradients_apart(parallel, serial)])


def of_mesh(case: Case) -> float:
    """Data parallel beside it: the two groups have texts of their own, and one mean loss."""
    whole = replace(case, split=False)  # weights as of one world, with room for its positions
    serial = randomised(whole, gpt.GPT(whole.config))
    parallel = cp.ContextParallelGPT(serial, case.kind, group_of(case), dist.group.WORLD)
    texts = []
    for half in (0, 1):
        generator = torch.Generator().manual_seed(3000 + 2 * case.number + half)
        ranks = len(range(half, dist.get_world_size(), 2))
        size = (case.batch, 2 * ranks * case.chunk)
        tokens = torch.randint(0, case.vocabulary, size, generator=generator)
        # the groups have different numbers of labels that count
        texts.append((tokens, tokens.roll(-1, 1).masked_fill(tokens % 3 == half, -100)))
    count = sum((labels >= 0).sum() for _, labels in texts)
    want = sum(serial(*text) for text in texts) / count
    want.backward()
    got = parallel(*texts[dist.get_rank() % 2])
    got.term.backward()
    gradients.sum_gradients(parallel.parameters())
    return max([far(got.mean, want), *gradients_apart(parallel, serial)])


PROBES = {"kernel": of_kernel, "attention": of_attention, "gpt": of_gpt, "mesh": of_mesh}


def apart(cases: list[Case]) -> list[float]:
    """The largest difference of each case, on this rank."""
    return [PROBES[case.probe](case) for case in cases]
