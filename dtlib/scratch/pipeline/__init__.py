"""Pipelines by hand: schedules as lists of instructions, a reader of them, and a worker."""

from dtlib.scratch.pipeline.instructions import (
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    ReceiveActivation,
    ReceiveGradient,
    SendActivation,
    SendGradient,
)
from dtlib.scratch.pipeline.messages import with_messages
from dtlib.scratch.pipeline.reading import Span, follow, idle_share, kept_at_most
from dtlib.scratch.pipeline.schedules import (
    for_all_ranks,
    gpipe,
    interleaved,
    one_forward_one_backward,
    zero_bubble_h1,
)
from dtlib.scratch.pipeline.sleeping import SleepingPipeline
from dtlib.scratch.pipeline.worker import Pipeline

__all__ = [
    "Backward",
    "BackwardInput",
    "BackwardWeight",
    "Forward",
    "Pipeline",
    "ReceiveActivation",
    "ReceiveGradient",
    "SendActivation",
    "SendGradient",
    "SleepingPipeline",
    "Span",
    "follow",
    "for_all_ranks",
    "gpipe",
    "idle_share",
    "interleaved",
    "kept_at_most",
    "one_forward_one_backward",
    "with_messages",
    "zero_bubble_h1",
]
