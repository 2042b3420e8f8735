"""Context parallelism by hand: every rank holds some positions of one long sequence."""

from dtlib.scratch.context_parallel.attention import Attention
from dtlib.scratch.context_parallel.gpt import ContextParallelGPT
from dtlib.scratch.context_parallel.layout import own_positions
from dtlib.scratch.context_parallel.loss import Loss, mean_loss
from dtlib.scratch.context_parallel.online_softmax import OnlineSoftmax, scores_of
from dtlib.scratch.context_parallel.ring import ring_attention
from dtlib.scratch.context_parallel.ulysses import to_heads, to_positions, ulysses_attention

__all__ = [
    "Attention",
    "ContextParallelGPT",
    "Loss",
    "OnlineSoftmax",
    "mean_loss",
    "own_positions",
    "ring_attention",
    "scores_of",
    "to_heads",
    "to_positions",
    "ulysses_attention",
]
