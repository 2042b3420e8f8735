"""Tensor parallelism of a GPT: what a rank holds, keeps for backward and sends in a step.

M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3; V. Korthikanti et al., "Reducing
Activation Recomputation in Large Transformer Models", MLSys 2023, arXiv:2205.05198, section 4.
Plain functions on numbers. Symbols: b micro-batch, s sequence, h width, L layers, a heads,
V vocabulary, N ranks.
"""

from dtlib.sim.activations import STREAM, statistics
from dtlib.sim.states import share
from dtlib.sim.tensors import elements, gpt
from dtlib.sim.traffic import collective

# Of a GPT's parameters, those that are cut; the others are whole on every rank.
CUT = (
    "wte.weight", "c_attn.weight", "c_attn.bias", "c_fc.weight", "c_fc.bias", "c_proj.weight",
)  # fmt: skip


def parameters(layers, width, context, vocab_size, ranks):
    """Elements that a rank holds: `(cut, whole)`.

    N has to divide the heads, and with them h; of V it is the rank with most words that counts.
    """
    return cut_and_whole(gpt(layers, width, context, vocab_size), ranks)


def cut_and_whole(shapes, ranks):
    """Elements that a rank holds of the tensors `(name, sizes)`: `(cut, whole)`."""
    cut = whole = 0
    for name, sizes in shapes:
        if ".".join(name.split(".")[-2:]) in CUT:
            cut += share(sizes[0], ranks) * elements(sizes[1:])
        else:
            whole += elements(sizes)
    return cut, whole


def part(shapes, ranks, rank=0):
    """Sizes of a rank's part of each of `shapes`, pairs `(name, sizes)`, as DTensor cuts them.

    The matrices that follow a sum are cut along their inputs, all others along their outputs, and
    the words into ⌈V/N⌉, so the last rank may have fewer.
    """
    found = []
    for name, sizes in shapes:
        if ".".join(name.split(".")[-2:]) in CUT:
            along = 1 if name.endswith("c_proj.weight") else 0
            chunk = share(sizes[along], ranks)
            own = list(sizes)  # MicroPython, which runs this in a page, knows no (*sizes, …)
            own[along] = max(0, min(chunk, sizes[along] - rank * chunk))
            sizes = tuple(own)
        found.append((name, sizes))
    return found


def traffic(
    sequence, batch, layers, width, context, ranks, size, sequence_parallel=False, micro_batches=1
):
    """Collectives of a step, in the rows of `dtlib.sim.traffic`.

    f and g stand twice in each block, g once more at the embedding and f at the output layer: that
    makes 4L + 2 all-reduces of s·b·h elements. Sequence parallelism makes a reduce-scatter and an
    all-gather of each, and adds up the gradients of what is whole on every rank: norms, biases and
    positions. The loss sends three numbers per position. (Clipping adds one number more, the norm
    of the gradient, which is in no row.)

    Parameters
    ----------
    size
        Bytes of an element of activations and gradients; the loss is computed in at least fp32.
    """
    times = (4 * layers + 2) * micro_batches
    rows = edges(sequence, batch, width, times, ranks, size, sequence_parallel)
    if sequence_parallel:
        _, whole = parameters(layers, width, context, ranks, ranks)
        rows.append(partial_gradients(whole, ranks, size))
    return rows + loss(sequence * batch, ranks, size, micro_batches)


def edges(sequence, batch, width, times, ranks, size, sequence_parallel=False):
    """What f and g send when each is called `times`: rows as in `traffic`."""
    each = sequence * batch * width
    names = ("all_gather", "reduce_scatter") if sequence_parallel else ("all_reduce",)
    return [collective(name, "f and g", each, ranks, size, times) for name in names]


def partial_gradients(whole, ranks, size):
    """The sum of gradients of what is whole on every rank, under sequence parallelism: a row."""
    return collective("all_reduce", "partial gradients", whole, ranks, size)


def loss(positions, ranks, size, times=1):
    """What the loss over a cut vocabulary sends, in at least fp32: rows as in `traffic`."""
    wide = max(size, 4)
    return [
        collective("all_reduce", "the loss: largest logit", positions, ranks, wide, times),
        collective("all_reduce", "the loss: sums", 2 * positions, ranks, wide, times),
    ]


def block_activations(
    sequence, batch, width, heads, recipe, ranks, sequence_parallel=False, kept="framework",
    keys=None,
):  # fmt: skip
    """Bytes that one block keeps for backward on a rank, with flash attention.

    In units of s·b·h elements: between f and g 12/N. f's two outputs, the inputs of the first
    matrices, are whole on every rank: 2. Norms keep their inputs: 2, or 2/N with sequence
    parallelism. So it is 4 + 12/N or, with sequence parallelism, 2 + 14/N.

    Parameters
    ----------
    recipe
        A key of `dtlib.sim.activations.STREAM`.
    kept
        "framework": what autograd keeps of the kernels of this course. "paper": Megatron-LM keeps
        only its own positions of f's outputs, and gathers them once more in backward: 16/N.
    keys
        Width of all keys, where several heads share them (default: h).
    """
    stream, compute = STREAM[recipe]
    sbh, inner = sequence * batch * width, max(compute, 4)
    outside = 2 * sbh * stream + 2 * statistics(sequence, batch, stream)
    entered = 2 * sbh * compute
    shared = 2 * sequence * batch * (width - (keys or width))  # of keys and values
    inside = ((12 * sbh - shared) * compute + heads * sequence * batch * inner) / ranks
    if sequence_parallel:
        outside /= ranks
        if kept == "paper":
            entered /= ranks
    return outside + entered + inside
