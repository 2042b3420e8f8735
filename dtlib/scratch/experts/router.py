"""The router: which k experts see a token, and with what weight they count.

A small linear layer gives every token a score for every expert; softmax makes them probabilities.
The token goes to its k most probable experts, and their outputs are multiplied by their **gates**.
The choice itself has no gradient. The router learns through the gates alone: if an expert helps,
its gate grows.

With k = 1 the gate is the probability. Divided by its own sum it would be 1, and the router would
learn nothing. With more, the k probabilities are divided by their sum.

N. Shazeer et al., "Outrageously Large Neural Networks", arXiv:1701.06538, section 2.1; W. Fedus et
al., "Switch Transformers", arXiv:2101.03961, equation 2 (k = 1); D. Lepikhin et al., "GShard",
arXiv:2006.16668, algorithm 1 (k = 2).
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.scratch.zero.clip import wide


class Routing(NamedTuple):
    """What the router says of T tokens.

    Attributes
    ----------
    probabilities
        [T, E], in at least fp32.
    experts
        The k chosen ones of each token, the most probable first: [T, k], int64.
    gates
        Their weights, [T, k].
    """

    probabilities: Tensor
    experts: Tensor
    gates: Tensor


class Router(nn.Module):
    """Choose k of E experts for each token.

    Parameters
    ----------
    scores
        From h to E, without a bias.
    k
        From 1 to E.

    Raises
    ------
    BadInput
        For another k.
    """

    def __init__(self, scores: nn.Linear, k: int) -> None:
        super().__init__()
        if not 1 <= k <= scores.out_features:
            raise BadInput(
                f"a token cannot go to {k} of {scores.out_features} experts: take a k from 1 to "
                f"{scores.out_features}."
            )
        self.scores, self.k = scores, k

    def forward(self, x: Tensor) -> Routing:
        """Route tokens [T, h]."""
        scores = self.scores(x)
        probabilities = F.softmax(scores, -1, dtype=wide(scores.dtype))
        gates, experts = probabilities.topk(self.k, -1)
        if self.k > 1:
            gates = gates / gates.sum(-1, keepdim=True)
        return Routing(probabilities, experts, gates)
