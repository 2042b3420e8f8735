"""Mutants of the kernels of a mixture of experts, each of which the probes must notice.

A mutant has one mistake: a router without a gradient, a wrong order, a drop that is not counted, a
gradient that is summed although it is complete. `pytest -s` prints how many were caught.
"""

from tests import expert_cases as cases
from tests import kernel_mutants

RANKS = 3
PACKAGE = "dtlib.scratch.experts."
SIM, TO_ALL, SUM = "dtlib.sim.experts", "dtlib.scratch.all_to_all", "dtlib.scratch.gradients"
ROUTER, BALANCE, CAPACITY, EXCHANGE, MIXTURE = (
    PACKAGE + name for name in ("router", "balance", "capacity", "exchange", "mixture")
)
# In the order in which they import one another.
MODULES = (SIM, TO_ALL, SUM, ROUTER, BALANCE, CAPACITY, EXCHANGE, MIXTURE, PACKAGE[:-1])

MUTANTS = [
    # the router, and its gradient
    (ROUTER, "probabilities.topk(", "probabilities.detach().topk("),
    (ROUTER, "        if self.k > 1:\n", "        if self.k > 0:\n"),
    (ROUTER, "        if self.k > 1:\n", "        if self.k > 2:\n"),
    (ROUTER, "gates / gates.sum(-1, keepdim=True)",
     "gates / gates.sum(-1, keepdim=True).detach()"),
    (ROUTER, "gates / gates.sum(-1, keepdim=True)", "gates.softmax(-1)"),
    (ROUTER, "probabilities.topk(self.k, -1)", "probabilities.topk(self.k, -1, largest=False)"),
    (ROUTER, "return Routing(probabilities, experts, gates)",
     "return Routing(probabilities, experts, gates.flip(-1) if self.k > 1 else gates)"),
    (ROUTER, "return Routing(probabilities, experts, gates)",
     "return Routing(probabilities, experts.flip(-1), gates.flip(-1))"),
    # balance
    (BALANCE, "share = load.to(mean.dtype) / load.sum()",
     "share = load.to(mean.dtype) / len(routing.experts)"),
    (BALANCE, "share = load.to(mean.dtype) / load.sum()", "share = mean"),
    (BALANCE, "(share * mean).sum()", "(share * mean.detach()).sum()"),
    (BALANCE, "return len(load) * (", "return ("),
    (BALANCE, "routing.experts.flatten()", "routing.experts[:, 0]"),
    # places
    (CAPACITY, "chosen.t().flatten()", "chosen.flatten()"),
    (CAPACITY, "(ones.cumsum(0) - ones)", "ones.cumsum(0)"),
    (CAPACITY, "ahead < capacity", "ahead <= capacity"),
    (CAPACITY, "ahead < capacity", "ahead >= 0"),
    (CAPACITY, "ahead < capacity", "ahead < 1"),
    (CAPACITY, "queue = chosen.t().flatten()", "queue = chosen.t().flip(1).flatten()"),
    (CAPACITY, "queue[kept] * capacity + ahead[kept]", "queue[kept] + ahead[kept] * experts"),
    (CAPACITY, "kept % tokens", "kept // k"),
    (CAPACITY, ".repeat_interleave(tokens)", ".repeat(tokens)"),
    (SIM, "factor * k * tokens", "factor * tokens"),
    (SIM, "math.ceil(share - 1e-9)", "int(share)"),
    (SIM, "math.ceil(share - 1e-9)", "round(share)"),
    (SIM, "min(tokens, math.ceil(share - 1e-9))", "min(tokens // 2, math.ceil(share - 1e-9))"),
    (MIXTURE, "capacity(len(tokens), ", "capacity(len(tokens) * dist.get_world_size(self.group), "),
    # there and back
    (EXCHANGE, "return all_to_all(parts, group).transpose(0, 1).flatten(1, 2)",
     "return all_to_all(parts, group).flatten(0, 1).unflatten(0, (experts // n, n)).flatten(1, 2)"),
    (EXCHANGE, "return all_to_all(parts, group).transpose(0, 1).flatten(1, 2)",
     "return all_to_all(parts.flip(0), group).transpose(0, 1).flatten(1, 2)"),
    (EXCHANGE, "return all_to_all(parts, group).transpose(0, 1).flatten(1, 2)",
     "return all_to_all(parts.detach(), group).transpose(0, 1).flatten(1, 2)"),
    (EXCHANGE, "return all_to_all(parts, group).transpose(0, 1).flatten(1, 2)",
     "return parts.transpose(0, 1).flatten(1, 2)"),
    (EXCHANGE, "buffer.view(n, experts // n, capacity, -1)",
     "buffer.view(experts // n, n, capacity, -1).transpose(0, 1)"),
    (EXCHANGE, "y.unflatten(1, (n, -1)).transpose(0, 1)",
     "y.unflatten(1, (-1, n)).permute(2, 0, 1, 3)"),
    (EXCHANGE, "all_to_all(parts, group).flatten(0, 2)",
     "all_to_all(parts, group).transpose(0, 1).flatten(0, 2)"),
    (EXCHANGE, "all_to_all(parts, group).flatten(0, 2)",
     "all_to_all(parts, group).flip(0).flatten(0, 2)"),
    (EXCHANGE, " * gates[at.tokens, at.choices].unsqueeze(1).to(home.dtype)", ""),
    (EXCHANGE, "gates[at.tokens, at.choices]", "gates.detach()[at.tokens, at.choices]"),
    (EXCHANGE, "gates[at.tokens, at.choices]", "gates[at.tokens, 0]"),
    (EXCHANGE, ".index_add(0, at.tokens, weighted)", ".index_copy(0, at.tokens, weighted)"),
    (EXCHANGE, ".index_add(0, at.tokens, weighted)",
     ".index_add(0, at.tokens, weighted) / dist.get_world_size(group)"),
    (EXCHANGE, "x[at.tokens]", "x[at.tokens.flip(0)]"),
    (TO_ALL, "return all_to_all(gradient, ctx.group), None", "return gradient, None"),
    (TO_ALL, "return all_to_all(gradient, ctx.group), None",
     "return all_to_all(gradient, ctx.group) / dist.get_world_size(ctx.group), None"),
    # whose experts, whose gradients, and the account
    (MIXTURE, "experts[rank * each : (rank + 1) * each]", "experts[rank::n]"),
    (MIXTURE, "experts[rank * each : (rank + 1) * each]", "experts[:each]"),
    (MIXTURE, "Cut(p.detach(), p.requires_grad)", "nn.Parameter(p.detach(), p.requires_grad)"),
    (MIXTURE, "return [p for p in model.parameters() if not isinstance(p, Cut)]", "return []"),
    (MIXTURE, "return [p for p in model.parameters() if not isinstance(p, Cut)]",
     "return list(model.parameters())"),
    (MIXTURE, "routing.experts.numel() - len(at.slots)", "len(tokens) - len(at.slots)"),
    (MIXTURE, "routing.experts.numel() - len(at.slots)", "max(0, len(tokens) - room)"),
    (MIXTURE, "len(tokens) - len(at.tokens.unique())", "dropped"),
    (MIXTURE, "len(tokens) - len(at.tokens.unique())", "len(tokens) - len(at.tokens)"),
    (MIXTURE, "load_of(routing), dropped", "load_of(routing).clamp(max=room), dropped"),
    (MIXTURE, "torch.stack(every).sum()", "torch.stack(every).mean()"),
    (SUM, "    dist.all_reduce(total, group=group)\n", ""),
    (SUM, "    dist.all_reduce(total, group=group)\n",
     "    dist.all_reduce(total, group=group)\n    total /= dist.get_world_size(group)\n"),
]  # fmt: skip


def test_every_mutant_is_caught():
    drawn = cases.drawn(RANKS, 16, seed=1)
    kernel_mutants.check(MODULES, MUTANTS, drawn, cases.apart, RANKS)
