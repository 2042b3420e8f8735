"""Bytes that forward keeps for backward: activations of the GPT and of the ResNet, and logits.

Counted operation by operation on the models of this course; equal to what autograd saves. A block
of the GPT, in units of s·b·h elements: layer norm keeps its input (1), the projection to query, key
and value its input (1), attention query, key, value (3) and its output (1), layer norm its input
(1), the MLP its input (1), GELU its input (4), the second projection its input (4): 16 in all, so
32·s·b·h bytes in bf16. Dropout adds two masks of one byte each, which gives the 34·s·b·h bytes of

V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023,
arXiv:2205.05198, equations 1 to 6.

Plain functions on numbers, no imports: they also run in the browser. Symbols: b micro-batch,
s sequence, h width, L layers, a heads, V vocabulary.
"""

# Bytes per element in the residual stream and in matrix products.
STREAM = {"mixed": (2, 2), "policy": (2, 2), "autocast": (4, 2), "fp32": (4, 4), "fp64": (8, 8)}
CHECKPOINTING = ("none", "selective", "full")
CHUNK = 2**26  # logits that dtlib stores at a time: 256 MiB in fp32, enough to keep a GPU busy
ATTENTION = ("flash", "materialised")


def statistics(sequence, batch, stream):
    """Bytes of a mean and a deviation per position, in at least fp32, as GPUs keep them."""
    return 2 * sequence * batch * max(stream, 4)


def gpt_lean(sequence, batch, width, recipe, dropout=False):
    """Bytes that a block keeps outside of attention."""
    stream, compute = STREAM[recipe]
    sbh = sequence * batch * width
    kept = 2 * sbh * stream + 14 * sbh * compute + 2 * statistics(sequence, batch, stream)
    return kept + (2 * sbh if dropout else 0)


def gpt_block(sequence, batch, width, heads, recipe, attention="flash", dropout=False):
    """Bytes that one block keeps.

    Flash attention keeps one logarithm per head and position (4 bytes) instead of scores and
    probabilities. Materialised attention is torch's math kernel: query, key, value and the
    s × s probabilities of every head, always computed in at least fp32.
    """
    _, compute = STREAM[recipe]
    positions = sequence * batch
    sbh = positions * width
    inner = max(compute, 4)
    if attention == "flash":
        core = 3 * sbh * compute + heads * positions * inner
    else:
        core = (3 * sbh + heads * sequence * positions) * inner
        if dropout:
            core += heads * sequence * positions * (1 + inner)  # dropout's mask and output
    return gpt_lean(sequence, batch, width, recipe, dropout) - 3 * sbh * compute + core


def gpt_selective(
    sequence, batch, width, heads, recipe, attention="flash", products=True, again=False
):
    """Bytes that a block keeps under `--activation-checkpointing selective`.

    Its input, the results of its four products (3 + 1 + 4 + 1 of s·b·h), and attention's output
    with the logarithms of flash or the scores of the math kernel. `products` is false under
    DeepSpeed's stage 3. `again` leaves out what autograd never keeps and only recomputation reads:
    the results of the two projections, and scores.
    """
    stream, compute = STREAM[recipe]
    positions, inner = sequence * batch, max(compute, 4)
    sbh = positions * width
    kept = sbh * stream + (9 - 2 * again) * sbh * compute * products
    if attention == "flash":
        return kept + sbh * compute + heads * positions * inner
    return kept + sbh * inner + heads * sequence * positions * inner * (not again)


def gpt(
    sequence,
    batch,
    layers,
    width,
    heads,
    recipe,
    attention="flash",
    checkpointing="none",
    dropout=False,
    products=True,
):
    """Bytes of the GPT's activations when backward begins, without logits.

    Checkpointing `selective` recomputes all that is cheap (see `gpt_selective`), `full` all of a
    block but its input. What is being recomputed comes on top (see `gpt_recomputed`).
    """
    stream, compute = STREAM[recipe]
    sbh = sequence * batch * width
    blocks = layers * sbh * stream
    if checkpointing == "selective":
        size = (sequence, batch, width, heads, recipe, attention)
        blocks = layers * gpt_selective(*size, products)
    elif checkpointing == "none":
        blocks = layers * gpt_block(sequence, batch, width, heads, recipe, attention, dropout)
    end = sbh * (stream + compute) + statistics(sequence, batch, stream)
    indices = 8 * sequence * (batch + 1)  # int64: of the token and of the position embedding
    return blocks + end + indices + (sbh if dropout else 0)


def gpt_recomputed(
    sequence,
    batch,
    width,
    heads,
    recipe,
    attention="flash",
    checkpointing="none",
    dropout=False,
    products=True,
):
    """Bytes that recomputation restores at a time: one block, or what one block did not keep."""
    size = (sequence, batch, width, heads, recipe, attention)
    block = gpt_block(*size, dropout)
    there = gpt_selective(*size, products, True)
    return {"none": 0, "selective": block - there, "full": block}[checkpointing]


def is_chunked(positions, classes, precision):
    """Whether `dtlib train` computes the loss in chunks, so that the logits are never stored whole.

    A small number of logits stays whole, so that its loss keeps its exact bits. So do those
    of fp16, because small gradients vanish unless the loss is scaled before they are computed.
    """
    return precision != "fp16" and positions * classes > CHUNK


def chunked_loss(positions, classes, width, recipe):
    """Bytes of a loss in chunks: what it keeps beyond its input, and its peak.

    Forward computes the gradients: that of the hidden states, which replaces the hidden states
    themselves, and that of the output layer, summed in at least fp32. The peak is one of four
    moments: two copies of a chunk's logits (logsumexp); a chunk's gradient in 16 bits and its
    gradient of the layer; the joining of the chunks; or backward, which scales both.

    Returns
    -------
    tuple
        `(kept, most)` in bytes.
    """
    compute = STREAM[recipe][1]
    wide, cast = max(compute, 4), compute * (compute < 4)
    chunk = -(-positions // -(-positions * classes // CHUNK)) * classes
    hidden, layer = positions * width, classes * width
    most = max(
        2 * wide * chunk + wide * layer + compute * hidden,
        (wide + cast) * chunk + (wide + compute) * layer + compute * hidden,
        (wide + cast) * layer + 2 * compute * hidden,
        2 * compute * layer + compute * hidden,
    )
    return compute * layer, most


def logits(positions, classes, recipe):
    """Bytes of the loss over `classes`: what it keeps, and its peak.

    Cross-entropy keeps the log-probabilities, in at least fp32. When backward begins, these,
    their gradient and the gradient of the logits exist together: 3·V elements per position, a term
    that memory estimators tend to forget.

    Returns
    -------
    tuple
        `(kept, most)` in bytes.
    """
    one = positions * classes * max(STREAM[recipe][1], 4)
    return one, 3 * one


def resnet(batch, convolutions, recipe, classes_in, norm="batch"):
    """Bytes that a ResNet keeps: every convolution's input and output, and its norms' statistics.

    Parameters
    ----------
    batch, classes_in
        b, pictures, and the inputs of the head.
    convolutions
        `tensors.resnet_convolutions`.
    recipe
        A key of `STREAM`.
    norm
        "batch" (a mean and a deviation for each channel) or "group" (for 8 channels of a picture).
    """
    stream, compute = STREAM[recipe]
    kept = batch * 3 * 32 * 32 * compute + batch * classes_in * compute
    for name, _, outputs, _, side in convolutions:
        # a norm keeps the convolution's output, the ReLU after it its own output; the norm of a
        # shortcut has no ReLU
        maps = 1 if "shortcut" in name else 2
        kept += maps * batch * outputs * side * side * compute
        groups = batch * outputs // 8 if norm == "group" else outputs
        kept += 2 * groups * max(stream, 4)
    return kept
