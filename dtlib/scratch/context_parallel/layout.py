"""Which positions of the sequence a rank holds: neighbours, or an early and a late chunk.

Under a causal mask a late position sees many keys and an early one few. If each rank holds s/N
neighbours, the last rank computes N times as much as the first. **Zig-zag** cuts the sequence into
2N chunks and gives rank r the chunks r and 2N-1-r, so that all ranks compute the same, in every
step of the ring:

| rank of 3 | chunks |
| --- | --- |
| 0 | 0, 5 |
| 1 | 1, 4 |
| 2 | 2, 3 |

Tokens, labels and position embeddings are taken in the same order. Labels have to be made before:
the next token of a chunk's last position is in another chunk, and perhaps on another rank.

W. Brandon et al., "Striped Attention", arXiv:2311.09431, describe the imbalance and another order
that mends it; Llama 3, arXiv:2407.21783, section 3.3.2, uses the one above.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from dtlib.errors import BadInput
from dtlib.scratch.tensor_parallel.parameters import Group
from dtlib.sim.context_parallel import chunks


def own_positions(sequence: int, zigzag: bool = True, group: Group = None) -> Tensor:
    """The positions that this rank holds, [s/N], int64, in the order in which it holds them.

    Parameters
    ----------
    sequence
        s, all positions.
    zigzag
        Two chunks of 2N, or else one of N.
    group
        The N ranks; None is all of them.

    Raises
    ------
    BadInput
        If the chunks would not be equally long.
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    count = 2 * n if zigzag else n
    if sequence % count:
        raise BadInput(
            f"rank {rank}: {sequence} positions cannot be cut into {count} equal chunks for {n} "
            f"ranks: take a sequence length that is a multiple of {count}."
        )
    each = sequence // count
    held = chunks(rank, n, zigzag)
    return torch.cat([torch.arange(chunk * each, (chunk + 1) * each) for chunk in held])
