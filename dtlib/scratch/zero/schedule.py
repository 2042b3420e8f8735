"""ZeRO stage 3 as a schedule: when each block is whole, written down before anything runs.

A rank holds one Nth of every block. A block is gathered before it is used, in forward and again in
backward, and freed afterwards; its gradient is reduce-scattered as soon as it is complete. With Ψ
elements each rank sends 3(N-1)/N·Ψ per micro-batch, and 3k(N-1)/N·Ψ for k of them.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC20, sections 5.3 and 7.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class _OfBlock:
    block: int


class AllGather(_OfBlock):
    """Make the parameters of a block whole on every rank."""


class Forward(_OfBlock):
    """Compute a block's output and keep what its backward needs."""


class Free(_OfBlock):
    """Free a block's parameters, except this rank's own shard."""


class Backward(_OfBlock):
    """Compute the gradients of a block's parameters and of its input."""


class ReduceScatter(_OfBlock):
    """Average a block's gradients over ranks and keep this rank's own shard."""


@dataclass(frozen=True)
class OptimizerStep:
    """Update this rank's own shards."""


Instruction = AllGather | Forward | Free | Backward | ReduceScatter | OptimizerStep
Needs = Sequence[Sequence[int]]  # for each block, the blocks whose parameters it computes with


def forward_schedule(needs: Needs) -> Iterator[Instruction]:
    """Yield a forward pass: gather, compute, and free what no later block needs."""
    for k, first, done in _uses(needs, range(len(needs))):
        yield from map(AllGather, first)
        yield Forward(k)
        yield from map(Free, done)


def backward_schedule(needs: Needs) -> Iterator[Instruction]:
    """Yield a backward pass, last block first: a gradient is sent once its last part is added."""
    for k, first, done in _uses(needs, range(len(needs) - 1, -1, -1)):
        yield from map(AllGather, first)
        yield Backward(k)
        for owner in done:
            yield Free(owner)
            yield ReduceScatter(owner)


def schedule(needs: Needs, micro_batches: int = 1) -> list[Instruction]:
    """Return all instructions of a step, the same on every rank."""
    once = [*forward_schedule(needs), *backward_schedule(needs)]
    return [*once * micro_batches, OptimizerStep()]


def _uses(needs: Needs, order: range) -> Iterator[tuple[int, list[int], list[int]]]:
    """For each block of a pass: the owners that it needs first, and those that it needs last."""
    for position, k in enumerate(order):
        before = {owner for j in order[:position] for owner in needs[j]}
        after = {owner for j in order[position + 1 :] for owner in needs[j]}
        yield k, [o for o in needs[k] if o not in before], [o for o in needs[k] if o not in after]
