"""What a rank of a pipeline can be told to do, as plain data.

A model is cut into stages, a batch into micro-batches. Stage s lies on rank s mod N, so that with
more stages than ranks (the interleaved schedule) a rank has several. A schedule gives each rank a
list of instructions, and each instruction names its micro-batch and its stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class _OfStage:
    micro_batch: int
    stage: int


class Forward(_OfStage):
    """Compute the output of a stage, and keep what its backward needs."""


class Backward(_OfStage):
    """Compute the gradients of a stage's input and weights, and drop what forward kept."""


class BackwardInput(_OfStage):
    """Compute the gradient of a stage's input only: all that the stage before it waits for."""


class BackwardWeight(_OfStage):
    """Compute the gradients of a stage's weights, for which nobody waits before the update."""


class SendActivation(_OfStage):
    """Send the output of this stage to the rank of the next stage."""


class ReceiveActivation(_OfStage):
    """Receive the input of this stage from the rank of the stage before it."""


class SendGradient(_OfStage):
    """Send the gradient of this stage's input to the rank of the stage before it."""


class ReceiveGradient(_OfStage):
    """Receive the gradient of this stage's output from the rank of the next stage."""


Compute = Forward | Backward | BackwardInput | BackwardWeight
Send = SendActivation | SendGradient
Receive = ReceiveActivation | ReceiveGradient
Instruction = Compute | Send | Receive
Lists = Sequence[Sequence[Instruction]]  # for each rank, what it does, in order


def stages_in(lists: Lists) -> int:
    """Return the number of stages that the lists of all ranks name."""
    return 1 + max((line.stage for lines in lists for line in lines), default=-1)
