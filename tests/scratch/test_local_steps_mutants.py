"""Mutants of local SGD, DiLoCo and PowerSGD, each of which the probes must notice.

A mutant has one mistake: a mean left out, a round off by a step, momentum of the wrong kind, an
error lost, a factor too many. `pytest -s` prints how many were caught.
"""

import pytest

from tests import kernel_mutants
from tests import local_steps_cases as cases

RANKS = 3
PACKAGE = "dtlib.scratch.local_steps."
FLAT = "dtlib.scratch.data_parallel.flat"
ROUNDS, LOCAL, DILOCO, LOW, POWER = (
    PACKAGE + name for name in ("rounds", "local_sgd", "diloco", "low_rank", "power_sgd")
)
# In the order in which they import one another.
MODULES = (FLAT, "dtlib.scratch.data_parallel", ROUNDS, LOCAL, DILOCO, LOW, POWER, PACKAGE[:-1])

MUTANTS = [
    # rounds
    (ROUNDS, "self.steps % self.every == 0", "(self.steps - 1) % self.every == 0"),
    (ROUNDS, "self.steps % self.every == 0", "self.steps == self.every"),
    (ROUNDS, "self.steps % self.every == 0", "True"),
    (ROUNDS, "self.steps % self.every == 0", "False"),
    (ROUNDS, "self.steps += 1", "self.steps += 2"),
    # local SGD
    (LOCAL, "        self.optimizer.step()\n", ""),
    (LOCAL, "average(self.params, self.group)", "pass"),
    (LOCAL, "average(self.params, self.group)", "average(self.params[1:], self.group)"),
    (LOCAL, "average(self.params, self.group)", "average(self.params, None)"),
    (LOCAL, "average(self.params, self.group)", "average([p.grad for p in self.params])"),
    (LOCAL, "same_start(model, group)", "pass"),
    (LOCAL, "self.rounds.steps = state", "state"),
    (LOCAL, "{\"steps\": self.rounds.steps}", "{\"steps\": 0}"),
    # the mean
    (FLAT, "dist.all_reduce(flat, group=group)", "dist.all_reduce(flat)"),
    (FLAT, "dist.get_world_size(group)", "dist.get_world_size()"),
    (FLAT, "flat.div_(dist.get_world_size(group))", "flat"),
    (FLAT, "        dist.all_reduce(flat, group=group)\n", ""),
    (FLAT, "offset += t.numel()", "offset += 1"),
    # DiLoCo
    (DILOCO, "        self.inner.step()\n", ""),
    (DILOCO, "same_start(model, group)", "pass"),
    (DILOCO, "[start - p for start, p", "[p - start for start, p"),
    (DILOCO, "average(ways, self.group)", "pass"),
    (DILOCO, "average(ways, self.group)", "average(ways, None)"),
    (DILOCO, "        self.outer.step()\n", ""),
    (DILOCO, "            p.copy_(start)\n", "            pass\n"),
    (DILOCO, "p.copy_(start)", "p.add_(start).div_(2)"),
    (DILOCO, "nesterov=nesterov", "nesterov=False"),
    (DILOCO, "lr, momentum, nesterov", "lr, momentum / 2, nesterov"),
    (DILOCO, "self.start, lr, momentum", "self.start, 1.0, momentum"),
    (DILOCO, "self.start, lr, momentum, nesterov=nesterov",
     "self.start, lr, momentum, momentum, nesterov=False"),
    (DILOCO, "p.detach().clone() for", "p.detach() for"),
    (DILOCO, "            mine.copy_(saved)\n", "            pass\n"),
    (DILOCO, "        self.outer.load_state_dict(state[\"outer\"])\n", ""),
    (DILOCO, "        self.rounds.steps = state[\"steps\"]\n", ""),
    # low-rank factors
    (LOW, "matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T", "matrix"),
    (LOW, "matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T", "matrix.T"),
    (LOW, "g.reshape(g.shape[0], -1)", "g.reshape(-1, g.shape[-1])"),
    (LOW, "matrix if len(matrix) == len(g) else matrix.T", "matrix"),
    (LOW, "min(rank, matrix.shape[0])", "1"),
    (LOW, "min(rank, matrix.shape[0])", "matrix.shape[0]"),
    (LOW, "torch.linalg.qr(p).Q", "p"),
    (LOW, "torch.linalg.qr(p).Q", "p / p.norm(dim=0)"),
    (LOW, "torch.linalg.qr(p).Q", "torch.linalg.qr(p).Q * p.norm()"),
    # PowerSGD
    (POWER, "as_matrix(g) + e for", "as_matrix(g) for"),
    (POWER, "as_matrix(g) + e for", "as_matrix(g) - e for"),
    (POWER, "average([*left, *others], self.group)", "average(left, self.group)"),
    (POWER, "average([*left, *others], self.group)", "average(others, self.group)"),
    (POWER, "average([*left, *others], self.group)", "average([*left, *others], None)"),
    (POWER, "average(self.right, self.group)", "pass"),
    (POWER, "average(self.right, self.group)", "average(self.right, None)"),
    (POWER, "left = [orthogonal(p) for p in left]", "left = left"),
    (POWER, "self.right = [m.T @ p for m, p in zip(wanted, left, strict=True)]",
     "self.right = [as_matrix(m).T @ p for m, p in zip(compressed, left, strict=True)]"),
    (POWER, "self.errors = [m - p @ q.T for m, p, q in zip(wanted, left, self.right, strict=True)]",
     "self.errors = [torch.zeros_like(m) for m in wanted]"),
    (POWER, "[m - p @ q.T for m, p, q in zip(wanted,",
     "[as_matrix(m) - p @ q.T for m, p, q in zip(compressed,"),
    (POWER, "m - p @ q.T for", "p @ q.T - m for"),
    (POWER, "g.copy_(shaped_as(g, p @ q.T))", "as_matrix(g).copy_(p @ q.T)"),
    (POWER, "g.copy_(shaped_as(g, p @ q.T))", "g.add_(shaped_as(g, p @ q.T))"),
    (POWER, "g.copy_(shaped_as(g, p @ q.T))", "g.copy_(shaped_as(g, p @ q.T) / 2)"),
    (POWER, "rank, seed + i)", "rank, seed)"),
    (POWER, "rank, seed + i)", "rank, seed + i + dist.get_rank())"),
    (POWER, "= list(state[\"errors\"]), list", "= self.errors, list"),
    (POWER, ", list(state[\"right\"])", ", self.right"),
    (POWER, "first_guess(m, rank, seed + i) for", "first_guess(m, 1, seed + i) for"),
]  # fmt: skip


@pytest.mark.slow
def test_every_mutant_is_caught():
    drawn = cases.drawn(RANKS, 18, seed=3)
    kernel_mutants.check(MODULES, MUTANTS, drawn, cases.apart, RANKS)
