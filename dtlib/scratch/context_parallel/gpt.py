"""A GPT whose sequence is on N ranks: all of it but attention treats each position by itself.

So embeddings, norms, MLPs and the output layer run as they are, on s/N positions. A rank keeps an
Nth of the activations but all of the weights, as in data parallel, and every gradient is the sum
over the ranks (`dtlib.scratch.gradients`).
"""

from __future__ import annotations

import copy
from typing import cast

from torch import Tensor, nn

from dtlib.errors import BadInput
from dtlib.models import gpt
from dtlib.models.chunked_loss import summed_loss
from dtlib.scratch.context_parallel.attention import Attention
from dtlib.scratch.context_parallel.layout import own_positions
from dtlib.scratch.context_parallel.loss import Loss, mean_loss
from dtlib.scratch.tensor_parallel.parameters import Group


class ContextParallelGPT(nn.Module):
    """A copy of a GPT that computes with this rank's positions, under the same names.

    Parameters
    ----------
    whole
        The GPT, without dropout and equal on all ranks.
    kind
        As for `Attention`.
    group
        The N ranks that hold the sequence; None is all of them.
    batch_group
        The ranks over whose labels the loss is averaged; None is `group`. With data parallel, too,
        these are all ranks that have a part of the batch.

    Raises
    ------
    BadInput
        If the GPT has dropout, or for an unknown kind.
    """

    def __init__(
        self,
        whole: gpt.GPT,
        kind: str = "zigzag",
        group: Group = None,
        batch_group: Group = None,
    ) -> None:
        super().__init__()
        if whole.config.dropout:
            raise BadInput(
                f"this GPT drops {whole.config.dropout:g} of its attention's probabilities, which "
                "no rank has whole here: build it with dropout 0."
            )
        self.config, self.zigzag, self.group = whole.config, kind == "zigzag", group
        self.batch_group = batch_group or group
        mine = copy.deepcopy(whole)
        self.wte, self.wpe, self.h, self.ln_f = mine.wte, mine.wpe, mine.h, mine.ln_f
        for block in self.h:
            old = cast(gpt.Attention, block.attn)
            block.attn = Attention(old.c_attn, old.c_proj, old.heads, kind=kind, group=group)

    def forward(self, tokens: Tensor, labels: Tensor) -> Loss:
        """The mean loss of a batch in nats: see `Loss`.

        Parameters
        ----------
        tokens, labels
            [b, s], int64, whole and equal on all ranks of the group: a rank takes its own
            positions. Negative labels do not count.

        Raises
        ------
        BadInput
            If the sequence is too long, or cannot be cut into equal chunks.
        """
        if tokens.shape[1] > self.config.context:
            raise BadInput(
                f"a sequence of {tokens.shape[1]} tokens exceeds the context of "
                f"{self.config.context}."
            )
        own = own_positions(tokens.shape[1], self.zigzag, self.group).to(tokens.device)
        tokens, labels = tokens[:, own], labels[:, own]
        x = self.wte(tokens) + self.wpe(own)
        for block in self.h:
            x = block(x)
        total = summed_loss(self.ln_f(x).flatten(0, 1), self.wte.weight, labels.flatten())
        return mean_loss(total, labels, self.batch_group)
