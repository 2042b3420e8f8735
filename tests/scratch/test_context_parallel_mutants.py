"""Mutants of the kernels of context parallelism, each of which the probes must notice.

A mutant has one mistake: a mask off by a chunk or a rank, a missing rescale, a wrong order, a
gradient that does not travel, a factor too many. `pytest -s` prints how many were caught.
"""

from tests import context_parallel_cases as cases
from tests import kernel_mutants

RANKS = 3
PACKAGE = "dtlib.scratch.context_parallel."
SIM, TO_ALL, SUM = (
    "dtlib.sim.context_parallel",
    "dtlib.scratch.all_to_all",
    "dtlib.scratch.gradients",
)
LAYOUT, TRAVEL, SOFTMAX, RING, ULYSSES, ATTENTION, LOSS, GPT = (
    PACKAGE + name for name in (
        "layout", "travel", "online_softmax", "ring", "ulysses", "attention", "loss", "gpt")
)  # fmt: skip
# In the order in which they import one another.
MODULES = (SIM, TO_ALL, SUM, LAYOUT, TRAVEL, SOFTMAX, RING, ULYSSES, ATTENTION, LOSS, GPT,
           PACKAGE[:-1])  # fmt: skip

MUTANTS = [
    # what is masked, and what is computed
    (SIM, "for k in keys if k <= q]", "for k in keys if k < q or q == rank]"),
    (SIM, "for k in keys if k <= q]", "for k in keys if k <= q + 1]"),
    (SIM, "for k in keys if k <= q]", "for k in keys if rank >= holder]"),
    (SIM, "for k in keys if k <= q]", "for k in keys]"),
    (RING, "q == k) for q, k", "False) for q, k"),
    (RING, "q == k) for q, k", "self.rank == holder) for q, k"),
    (SOFTMAX, ".triu(1)", ".triu()"),
    (SOFTMAX, ".triu(1)", ".triu(2)"),
    (SOFTMAX, ".triu(1)", ".tril(-1)"),
    (ULYSSES, "is_causal=True", "is_causal=False"),
    # the online softmax
    (SOFTMAX, "self.total = self.total * rescale +", "self.total = self.total +"),
    (SOFTMAX, "self.numerator = self.numerator * rescale +", "self.numerator = self.numerator +"),
    (SOFTMAX, "(self.largest - largest).exp()", "(largest - self.largest).exp()"),
    (SOFTMAX, "torch.maximum(self.largest, scores.amax(-1, keepdim=True))",
     "scores.amax(-1, keepdim=True)"),
    (SOFTMAX, "torch.maximum(self.largest, scores.amax(-1, keepdim=True))",
     "torch.zeros_like(self.largest)"),
    (SOFTMAX, "        self.largest = largest\n", ""),
    (SOFTMAX, "self.numerator / self.total,", "self.numerator,"),
    (SOFTMAX, "self.largest + self.total.log()", "self.total.log()"),
    (SOFTMAX, "self.largest + self.total.log()", "self.largest"),
    # its gradients
    (SOFTMAX, " - along)", ")"),
    (SOFTMAX, "(gradient * output).sum(-1, keepdim=True)", "(gradient * output).sum()"),
    (SOFTMAX, "- along) / math.sqrt(q.shape[-1])", "- along)"),
    (SOFTMAX, "(of_scores.transpose(-2, -1) @ q).sum(2, keepdim=True)",
     "(of_scores.transpose(-2, -1) @ q).mean(2, keepdim=True)"),
    (SOFTMAX, "(probabilities.transpose(-2, -1) @ gradient).sum(2, keepdim=True)",
     "(probabilities.transpose(-2, -1) @ gradient)[:, :, :1]"),
    (SOFTMAX, "torch.stack([of_k, of_v])", "torch.stack([of_v, of_k])"),
    (SOFTMAX, "- log_sum).exp()", ").softmax(-1)"),
    # what travels
    (RING, "of_held += travelling.wait()", "travelling.wait()"),
    (RING, "of_held += travelling.wait()", "of_held = travelling.wait()"),
    (RING, "travelling.wait().to(kv.dtype)", "(travelling.wait(), of_held)[1].to(kv.dtype)"),
    (RING, "blocks.cut(of_held)[j].add_(theirs)", "blocks.cut(of_held)[j].copy_(theirs)"),
    (RING, "blocks.cut(of_q)[i].add_(mine)", "blocks.cut(of_q)[i].copy_(mine)"),
    (RING, "torch.stack([k, v]).unsqueeze(3)", "torch.stack([k, v.detach()]).unsqueeze(3)"),
    (RING, "torch.stack([k, v]).unsqueeze(3)", "torch.stack([v, k]).unsqueeze(3)"),
    (RING, "values[j])", "values[-1 - j])"),
    (TRAVEL, "yield (rank - step) % n, x", "yield (rank + step) % n, x"),
    (TRAVEL, "yield (rank + 1) % n, x", "yield (rank - 1) % n, x"),
    (TRAVEL, "        x = message.wait()", "        message.wait()"),
    (TRAVEL, "        for work in self.work:\n            work.wait()\n        return self.coming",
     "        for work in self.work:\n            work.wait()\n        return self.sent"),
    # order
    (SIM, "(rank, 2 * ranks - 1 - rank)", "(rank, ranks + rank)"),
    (SIM, "(rank, 2 * ranks - 1 - rank)", "(2 * rank, 2 * rank + 1)[::-1]"),
    (LAYOUT, "for chunk in held]", "for chunk in sorted(held, reverse=True)]"),
    (LAYOUT, "for chunk in held]", "for chunk in (rank, n + rank)[: len(held)]]"),
    (RING, "theirs.index(k), q == k", "theirs.index(k) if q == k else len(theirs) - 1, q == k"),
    (RING, "x.chunk(len(self.own), -2)", "x.chunk(len(self.own), -2)[::-1]"),
    (RING, "q.contiguous().unflatten(1, (kv_heads, heads // kv_heads))",
     "q.unflatten(1, (heads // kv_heads, kv_heads)).transpose(1, 2)"),
    (RING, "output.flatten(1, 2)", "output.transpose(1, 2).flatten(1, 2)"),
    (ULYSSES, "torch.stack(x.chunk(dist.get_world_size(group), 1))",
     "torch.stack(x.chunk(dist.get_world_size(group), 1)[::-1])"),
    (ULYSSES, "torch.stack(x.chunk(dist.get_world_size(group), 2))",
     "torch.stack(x.chunk(dist.get_world_size(group), 2)[::-1])"),
    (ULYSSES, "torch.cat(all_to_all(parts, group).unbind(), 2)",
     "torch.stack(all_to_all(parts, group).unbind(), 3).flatten(2, 3)"),
    (ULYSSES, "torch.cat(all_to_all(parts, group).unbind(), 1)",
     "torch.stack(all_to_all(parts, group).unbind(), 2).flatten(1, 2)"),
    (TO_ALL, "return all_to_all(gradient, ctx.group), None", "return gradient, None"),
    (TO_ALL, "return all_to_all(gradient, ctx.group), None",
     "return all_to_all(gradient.flip(0), ctx.group), None"),
    # positions, loss and sums
    (GPT, "self.wpe(own)", "self.wpe.weight[: len(own)]"),
    (GPT, "labels[:, own]", "labels[:, own.flip(0)]"),
    (GPT, "tokens[:, own], labels[:, own]", "tokens[:, own], tokens[:, own].roll(-1, 1)"),
    (LOSS, "    dist.all_reduce(both, group=group)\n",
     "    dist.all_reduce(both[:1], group=group)\n"),
    (LOSS, "(labels >= 0).sum()", "torch.tensor(labels.numel())"),
    (LOSS, "return Loss(total / count,", "return Loss(total / both[1] * dist.get_world_size(),"),
    (LOSS, "everything / count)", "total.detach() / count)"),
    (SUM, "    dist.all_reduce(total, group=group)\n", ""),
    (SUM, "    dist.all_reduce(total, group=group)\n",
     "    dist.all_reduce(total, group=group)\n    total /= dist.get_world_size(group)\n"),
    # the group
    (SUM, "dist.all_reduce(total, group=group)", "dist.all_reduce(total)"),
    (GPT, "mean_loss(total, labels, self.batch_group)", "mean_loss(total, labels, self.group)"),
    (GPT, "self.batch_group = batch_group or group", "self.batch_group = batch_group"),
    (ATTENTION, "part.unflatten(-1, (-1, d)).transpose(1, 2)",
     "part.unflatten(-1, (d, -1)).permute(0, 3, 1, 2)"),
]  # fmt: skip


def apart(case: cases.Case) -> float:
    return cases.apart([case])[0]


def test_every_mutant_is_caught():
    kernel_mutants.check(MODULES, MUTANTS, cases.drawn(RANKS, 24, seed=1), apart, RANKS)
