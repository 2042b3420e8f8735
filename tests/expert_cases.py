"""Experts on several ranks beside the same mixture in one process, in float64, on every rank.

The serial mixture knows no messages and no places: it sends every token through all experts, and
multiplies with 0 where no expert takes it. Who is taken it finds by walking along the queue.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.models import gpt
from dtlib.scratch import context_parallel as cp
from dtlib.scratch import experts as ex
from dtlib.scratch import gradients
from tests.context_parallel_cases import group_of, randn
from tests.tensor_parallel_cases import far, labels_of, randomised, tokens_of

BALANCE = 0.01  # the coefficient of the load-balancing loss


@dataclass(frozen=True)
class Case:
    """The shapes of one comparison; `batch` and `positions` are those of one rank."""

    probe: str
    split: bool
    batch: int
    positions: int
    width: int
    each: int  # experts of a rank
    k: int
    factor: str
    number: int

    @property
    def n(self) -> int:
        return dist.get_world_size(group_of(self))

    @property
    def seed(self) -> int:
        """Each group computes with numbers of its own: what leaks from one to another is wrong."""
        return 2 * self.number + (self.split and dist.get_rank() % 2)

    @property
    def vocabulary(self) -> int:
        return 11

    @property
    def config(self) -> gpt.GPTConfig:
        return gpt.GPTConfig(self.vocabulary, self.positions, 2, 2, self.width)


def drawn(ranks: int, count: int, seed: int) -> list[Case]:
    """Each probe with one and with several choices, in the world and in two groups."""
    draw = random.Random(f"{seed} {ranks}")
    cases = []
    for number in range(count):
        split = number // 4 % 2 == 1
        each = draw.randint(1, 3)
        most = each * (1 if split else ranks)  # a group may be of one rank
        cases.append(
            Case(
                probe=list(PROBES)[number % 2],
                split=split,
                batch=draw.randint(1, 2),
                positions=draw.randint(3, 8),
                width=2 * draw.randint(2, 4),
                each=each,
                k=1 if number // 2 % 2 == 0 else draw.randint(min(2, most), min(3, most)),
                factor=draw.choice(["0.3", "0.6", "1", "1.1", "2", "9"]),
                number=number,
            )
        )
    return cases


class SerialMixture(nn.Module):
    """All experts in one process; the samples of `sources` ranks, each with places of its own."""

    def __init__(
        self, scores: nn.Linear, experts: list[nn.Module], k: int, factor: str, sources: int
    ) -> None:
        super().__init__()
        self.scores, self.experts = scores, nn.ModuleList(experts)
        self.k, self.factor, self.sources = k, Fraction(factor), sources

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.of_source(part.flatten(0, -2)) for part in x.chunk(self.sources)]
        self.balance = torch.stack([balance for _, balance, *_ in parts]).mean()
        self.counts = [counts for *_, counts in parts]
        return torch.cat([y for y, *_ in parts]).view(x.shape)

    def of_source(self, tokens: Tensor) -> tuple[Tensor, Tensor, tuple[list[int], int, int]]:
        count, all_tokens = len(self.experts), len(tokens)
        probabilities = F.softmax(self.scores(tokens), -1)
        order = probabilities.sort(descending=True).indices[:, : self.k].tolist()
        room = min(all_tokens, math.ceil(self.factor * self.k * all_tokens / count))
        taken: Counter[int] = Counter()
        weights = torch.zeros(all_tokens, count, dtype=tokens.dtype)
        for choice in range(self.k):
            for token, chosen in enumerate(order):
                if taken[chosen[choice]] < room:
                    taken[chosen[choice]] += 1
                    weights[token, chosen[choice]] = 1
        if self.k > 1:
            sums = torch.stack([p[e].sum() for p, e in zip(probabilities, order, strict=True)])
            gates = probabilities / sums.unsqueeze(1)
        else:
            gates = probabilities
        outputs = torch.stack([expert(tokens) for expert in self.experts], 1)
        y = ((weights * gates).unsqueeze(-1) * outputs).sum(1)
        load = [sum(e in chosen for chosen in order) for e in range(count)]
        shares = torch.tensor(load, dtype=tokens.dtype) / (self.k * all_tokens)
        balance = count * (shares * probabilities.mean(0)).sum()
        dropped = self.k * all_tokens - taken.total()
        bypassed = int((weights.sum(1) == 0).sum())
        return y, balance, (load, dropped, bypassed)


def serial_mixture(case: Case) -> SerialMixture:
    """A router that prefers some experts by far, so that others drop few tokens or none."""
    count = case.each * case.n
    experts: list[nn.Module] = [gpt.MLP(case.config) for _ in range(count)]
    scores = nn.Linear(case.width, count, bias=False)
    return SerialMixture(scores, experts, case.k, case.factor, case.n)


def parallel_mixture(case: Case, serial: SerialMixture) -> ex.Mixture:
    experts = list(serial.experts)
    return ex.Mixture(serial.scores, experts, case.k, float(case.factor), group_of(case))


def own(case: Case, whole: Tensor) -> Tensor:
    """This rank's samples."""
    return whole.chunk(case.n)[dist.get_rank(group_of(case))]


def gradients_apart(parallel: nn.Module, serial: nn.Module, case: Case) -> list[float]:
    """Compare all gradients; a rank's experts are some of the serial model's."""
    return [
        far(torch.zeros_like(p) if p.grad is None else p.grad, q.grad)
        for p, q in partners(parallel, serial, case)
    ]


def partners(parallel: nn.Module, serial: nn.Module, case: Case) -> list[tuple[Tensor, Tensor]]:
    right = dict(serial.named_parameters())
    first = case.each * dist.get_rank(group_of(case))
    pairs = []
    for name, p in parallel.named_parameters():
        path = name.replace("router.", "").split(".")
        if "experts" in path:
            at = path.index("experts") + 1
            path[at] = str(int(path[at]) + first)
        pairs.append((p, right[".".join(path)]))
    return pairs


def wrong_account(case: Case, got: ex.Mixture, want: SerialMixture) -> bool:
    account = got.account
    counts = (account.load.tolist(), account.dropped, account.bypassed)
    return counts != want.counts[dist.get_rank(group_of(case))]


def of_mixture(case: Case) -> float:
    """The layer alone, and the account of what became of the tokens."""
    serial = serial_mixture(case)
    randomised(case, serial)
    parallel = parallel_mixture(case, serial)
    x = randn(case, case.batch * case.n, case.positions, case.width)
    inside, outside = x.clone().requires_grad_(), own(case, x).clone().requires_grad_()
    y, z = serial(inside), parallel(outside)
    gradient = randn(case, *y.shape)
    ((y * gradient).sum() + BALANCE * serial.balance).backward()
    ((z * own(case, gradient)).sum() + BALANCE * parallel.account.balance / case.n).backward()
    gradients.sum_gradients(ex.shared(parallel), group_of(case))
    zeros = int((z == 0).all(-1).sum())  # what an expert makes of a token is never exactly 0
    if wrong_account(case, parallel, serial) or zeros != parallel.account.bypassed:
        return float("inf")
    gaps = [far(z, own(case, y)), far(outside.grad, own(case, inside.grad))]
    return max([*gaps, *gradients_apart(parallel, serial, case)])


def serial_gpt(case: Case) -> gpt.GPT:
    """A GPT with a mixture in place of each MLP."""
    model = gpt.GPT(case.config, seed=case.seed)
    torch.manual_seed(case.seed)  # experts and routers are the same on all ranks
    for block in model.h:
        block.mlp = serial_mixture(case)
    return model.double()


def parallel_gpt(case: Case, serial: gpt.GPT) -> gpt.GPT:
    model = gpt.GPT(case.config)
    mixtures = [block.mlp for block in serial.h]
    for block in model.h:
        block.mlp = nn.Identity()
    model.double().load_state_dict(serial.state_dict(), strict=False)
    for block, mixture in zip(model.h, mixtures, strict=True):
        block.mlp = parallel_mixture(case, mixture)
    return model


def losses(
    case: Case, serial: gpt.GPT, parallel: gpt.GPT, tokens: Tensor, labels: Tensor
) -> tuple[float, float]:
    """Loss and backward of both, on the same batch; gradients are added up."""
    want = serial(tokens, labels) / (labels >= 0).sum()
    (want + BALANCE * sum(block.mlp.balance for block in serial.h)).backward()
    got = cp.mean_loss(parallel(own(case, tokens), own(case, labels)), own(case, labels),
                       group_of(case))  # fmt: skip
    (got.term + BALANCE * ex.balance_of(parallel) / case.n).backward()
    gradients.sum_gradients(ex.shared(parallel), group_of(case))
    return got.mean.item(), want.item()


def of_gpt(case: Case) -> float:
    serial = serial_gpt(case)
    randomised(case, serial)
    parallel = parallel_gpt(case, serial)
    text = Case(**{**vars(case), "batch": case.batch * case.n})  # the samples of all ranks
    got, want = losses(case, serial, parallel, tokens_of(text), labels_of(text))
    pairs = zip(parallel.h, serial.h, strict=True)
    if any(wrong_account(case, ours.mlp, theirs.mlp) for ours, theirs in pairs):
        return float("inf")
    return max([abs(got - want), *gradients_apart(parallel, serial, case)])


PROBES = {"mixture": of_mixture, "gpt": of_gpt}


def apart(case: Case) -> float:
    """The largest difference of a case, on this rank."""
    return PROBES[case.probe](case)
