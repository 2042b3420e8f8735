"""Mutants of the kernels of tensor parallelism, each of which the probes must notice.

A mutant is a kernel's file with one mistake in it: a missing message, a wrong cut, a wrong order, a
factor too many. All of them run in one launch: `pytest -s` prints how many were caught.
"""

from tests import kernel_mutants
from tests import tensor_parallel_cases as cases

RANKS = 3
PACKAGE = "dtlib.scratch.tensor_parallel"
# In the order in which they import one another.
FILES = ("parameters", "operators", "edges", "linear", "mlp", "attention", "embedding",
         "cross_entropy", "sequence", "clip", "gpt")  # fmt: skip

MUTANTS: list[tuple[str, str, str]] = [
    # missing messages
    ("operators", "        return all_reduce(gradient, ctx.group), None",
     "        return gradient, None"),
    ("operators", "        return all_reduce(x, group)", "        return x.clone()"),
    ("operators", "return reduce_scatter(gradient, ctx.group), None",
     "return gradient.chunk(dist.get_world_size(), 1)[dist.get_rank()].clone(), None"),
    ("operators", "return reduce_scatter(x, group)",
     "return x.chunk(dist.get_world_size(), 1)[dist.get_rank()].clone()"),
    ("parameters", "    dist.all_reduce(total, group=group)\n", ""),
    ("clip", "    dist.all_reduce(squares[True], group=group)\n", ""),
    ("cross_entropy", "        dist.all_reduce(sums, group=group)\n", ""),
    ("cross_entropy", "        dist.all_reduce(largest, dist.ReduceOp.MAX, group)\n", ""),
    ("embedding", "return self.edges.leave(vectors.masked_fill(theirs.unsqueeze(-1), 0))",
     "return vectors.masked_fill(theirs.unsqueeze(-1), 0)"),
    ("embedding", "self.edges.enter(x)", "x"),
    ("linear", "self.enter(x)", "x"),
    ("attention", "x = self.enter(x)", "x = x"),
    # a message too many
    ("operators", "        return gradient, None\n", "        return all_reduce(gradient), None\n"),
    ("operators", "        return x.view_as(x)", "        return all_reduce(x)"),
    # wrong cuts
    ("linear", "cut(whole.weight, 0, edges.group)",
     "nn.Parameter(whole.weight.detach()[dist.get_rank()::dist.get_world_size()].clone())"),
    ("parameters", "[dist.get_rank(group)]", "[dist.get_rank(group) - 1]"),
    ("parameters", "+ min(rank, longer)", ""),
    ("attention", "c_attn.weight.split(sizes)", "c_attn.weight.roll(d, 0).split(sizes)"),
    ("attention", "zip(c_attn.weight.split(sizes), c_attn.bias.split(sizes), strict=True)",
     "zip(c_attn.weight.split([kv * d, kv * d, heads * d])[::-1], c_attn.bias.split(sizes), "
     "strict=True)"),
    ("attention", "used.start * d, used.stop * d", "0, len(used) * d"),
    ("attention", "query // shared_by - used[0] for", "query % kv % len(used) for"),
    ("attention", "range(queries[0] // shared_by, queries[-1] // shared_by + 1)",
     "range(queries[-1] // shared_by, queries[-1] // shared_by + 1)"),
    ("sequence", "keep = own(keep, POSITIONS, self.edges.group)", "keep = keep[:, : x.shape[1]]"),
    ("gpt", "own(positions, POSITIONS, self.edges.group)",
     "positions[:, : x.shape[1]]"),
    # wrong order
    ("operators", "torch.cat(parts, dim=POSITIONS)", "torch.cat(parts[::-1], dim=POSITIONS)"),
    ("operators", "torch.stack(x.chunk(n, dim=POSITIONS))",
     "torch.stack(x.chunk(n, dim=POSITIONS)[::-1])"),
    ("parameters", "zip(params, total.split([p.numel() for p in params]), strict=True)",
     "zip(params[::-1], total.split([p.numel() for p in params[::-1]]), strict=True)"),
    ("mlp", "self.c_proj(F.gelu(self.c_fc(x), approximate=\"tanh\"))",
     "F.gelu(self.c_proj(self.c_fc(x)), approximate=\"tanh\")"),
    ("cross_entropy", "torch.stack([exponentials.sum(-1), target])",
     "torch.stack([exponentials.sum(-1).log(), target])"),
    # a factor too many
    ("operators", "        dist.all_reduce(total, group=group)\n",
     "        dist.all_reduce(total)\n        total /= dist.get_world_size()\n"),
    ("linear", "self.leave(F.linear(x, self.weight)) + self.bias",
     "self.leave(F.linear(x, self.weight) + self.bias)"),
    ("linear", "edges.shared(whole.bias", "nn.Parameter(whole.bias"),
    ("sequence", "edges.shared(whole.weight", "nn.Parameter(whole.weight"),
    ("sequence", "edges.shared(whole.bias", "nn.Parameter(whole.bias"),
    ("gpt", "edges.shared(whole.wpe", "nn.Parameter(whole.wpe"),
    ("attention", "Partial(weight", "nn.Parameter(weight"),
    ("attention", "Partial(bias", "nn.Parameter(bias"),
    ("parameters", "    dist.all_reduce(total, group=group)\n",
     "    dist.all_reduce(total)\n    total /= dist.get_world_size()\n"),
    ("clip", "squares[isinstance(p, Cut)]", "squares[True]"),
    ("clip", "squares[isinstance(p, Cut)]", "squares[False]"),
    ("sequence", "/ (1 - self.p)", ""),
    # what falls into nobody's part, or into everybody's
    ("embedding", "vectors.masked_fill(theirs.unsqueeze(-1), 0)", "vectors"),
    ("embedding", "| (rows >= len(self.weight))", "| (rows > len(self.weight) - 2)"),
    ("cross_entropy", ".squeeze(-1).masked_fill(theirs, 0)", ".squeeze(-1)"),
    ("cross_entropy", "-(~theirs)", "-(theirs | ~theirs)"),
    ("cross_entropy", "gradient.masked_fill(ignored, 0)", "gradient"),
    ("cross_entropy", ".masked_fill(labels < 0, 0)", ""),
]  # fmt: skip


def apart(case: cases.Case) -> float:
    return cases.apart([case])[0]


def test_every_mutant_is_caught():
    modules = [f"{PACKAGE}.{file}" for file in FILES]
    mutants = [(f"{PACKAGE}.{file}", old, new) for file, old, new in MUTANTS]
    drawn = cases.drawn(RANKS, 28, seed=1)
    kernel_mutants.check([*modules, PACKAGE], mutants, drawn, apart, RANKS)
