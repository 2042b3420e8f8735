"""A worker that carries out any schedule: its rank's list, line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput, counted
from dtlib.scratch.pipeline import instructions as i
from dtlib.scratch.pipeline.computing import Computations
from dtlib.scratch.pipeline.links import Links
from dtlib.scratch.pipeline.messages import with_messages
from dtlib.scratch.pipeline.reading import Span, follow
from dtlib.scratch.pipeline.split import Jobs, defer_weights
from dtlib.scratch.pipeline.stages import Shapes, cut, refuse_batch, shared_weights


class Pipeline:
    """One rank's stages of a model, and the schedule by which they compute gradients.

    Parameters
    ----------
    blocks
        The whole model as a row of blocks (`blocks_of`), with the same weights on all ranks. The
        blocks of other ranks are not kept.
    lists
        For each rank its computations, as `for_all_ranks` returns them; messages are added here.
    loss_sum
        Takes the last stage's output and the targets of a micro-batch; returns the sum of losses.
    timeout, group
        Seconds that a message may take; the pipeline's ranks, by default all there are.

    Attributes
    ----------
    stages
        This rank's stages, by number.
    links
        How many messages and bytes were sent.
    spans
        When each computation of the last step ran, in seconds of this machine's clock.
    most_kept
        The most forwards that this rank kept at once in the last step.

    Raises
    ------
    BadInput
        When no worker could carry out the lists (see `follow`), when they are not for as many ranks
        as there are, or when they name more stages than there are blocks.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        lists: Sequence[Sequence[i.Compute]],
        loss_sum: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        timeout: float = 30.0, group: dist.ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        self.rank, ranks, self.last = dist.get_rank(group), len(lists), i.stages_in(lists) - 1
        if ranks != dist.get_world_size(group):
            raise BadInput(
                f"the schedule is for {counted(ranks, 'rank')}, but there are "
                f"{dist.get_world_size(group)}: make one for as many."
            )
        whole = with_messages(lists)
        follow(whole)  # refuses what no worker can do
        self.lines, self.loss_sum = whole[self.rank], loss_sum
        self.links = Links(whole, timeout, group)
        stages = cut(blocks, self.last + 1)
        self.shapes, self.shared = Shapes(stages), shared_weights(stages, ranks)
        self.stages = {s: stages[s] for s in range(self.rank, len(stages), ranks)}
        self.jobs: Jobs = []
        for stage in self.stages.values():
            if any(isinstance(line, i.BackwardWeight) for line in self.lines):
                defer_weights(stage, self.jobs)

    def parameters(self) -> list[nn.Parameter]:
        """This rank's parameters, for any optimizer; a tied one is on each rank that uses it."""
        return list(dict.fromkeys(p for s in self.stages.values() for p in s.parameters()))

    def step(self, x: torch.Tensor, targets: torch.Tensor, count: int) -> float | None:
        """Compute the gradients of a whole batch; the optimizer's step comes afterwards.

        Drop the gradients (`zero_grad`) before the next call: those of tied weights are summed over
        ranks here, and would be summed again.

        Parameters
        ----------
        x, targets
            The global batch, on every rank; cut into micro-batches along the first dimension.
        count
            What the loss is averaged over: the samples or tokens of the global batch.

        Returns
        -------
        float or None
            The mean loss of the batch on the rank of the last stage, None on the others.

        Raises
        ------
        BadInput
            For a batch with fewer samples than micro-batches, and under autocast.
        """
        many = 1 + max(line.micro_batch for line in self.lines)
        refuse_batch(x, many)
        self.now = Computations(
            self.stages, self.last, self.jobs, self.loss_sum,
            x.tensor_split(many), targets.tensor_split(many), count,
        )  # fmt: skip
        self.most_kept, self.spans = 0, []
        for line in self.lines:
            start = time.perf_counter()
            self.carry_out(line)
            if isinstance(line, i.Compute):
                self.spans.append(Span(self.rank, line, start, time.perf_counter()))
            self.most_kept = max(self.most_kept, self.now.how_many_kept())
        self.links.finish()
        self.links.sum_gradients(self.shared)
        return self.now.loss if self.last in self.stages else None

    def carry_out(self, line: i.Instruction) -> None:
        """Carry out one line of this rank's list."""
        m, s, now = line.micro_batch, line.stage, self.now
        match line:
            case i.Forward():
                now.forward(m, s)
            case i.BackwardInput():
                now.backward_input(m, s)
            case i.BackwardWeight():
                now.backward_weight(m, s)
            case i.Backward():
                now.backward_input(m, s)
                now.backward_weight(m, s)
            case i.SendActivation():
                self.links.send(line, now.inputs.pop((m, s + 1)))
            case i.ReceiveActivation():
                now.inputs[m, s] = self.links.receive(line, self._empty(m, s))
            case i.SendGradient():
                self.links.send(line, now.gradients.pop((m, s - 1)))
            case i.ReceiveGradient():
                now.gradients[m, s] = self.links.receive(line, self._empty(m, s + 1))

    def _empty(self, m: int, s: int) -> torch.Tensor:
        """A tensor for the input of a stage, or for its gradient."""
        x = self.now.x[m]
        return torch.empty_like(self.shapes.inputs(x)[s], device=x.device)
