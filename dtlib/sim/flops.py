"""Floating point operations of a training step, and the share of the peak that they make.

A multiplication and an addition are two. Only matrix products, convolutions and attention count;
norms, activations and the optimizer are left out, as all of the literature does. Backward takes
twice the operations of forward. Attention counts the whole s × s square, also where a causal mask
makes half of it superfluous.

Plain functions on numbers, no imports: they also run in the browser. Symbols: Ψ parameters,
b micro-batch, s sequence, h width, L layers, V vocabulary.
"""


def gpt_forward(tokens, sequence, layers, width, vocab_size):
    """FLOP of the GPT's forward, exactly: `linear`, `attention` and `logits`.

    Per token: 24h²L for the blocks' products, 4shL for scores and weighted values, 2hV for logits.

    Parameters
    ----------
    tokens
        b·s, all the tokens of the (micro-)batch.
    sequence
        s.
    layers, width, vocab_size
        L, h, V.
    """
    return {
        "linear": 24 * width * width * layers * tokens,
        "attention": 4 * sequence * width * layers * tokens,
        "logits": 2 * width * vocab_size * tokens,
    }


def gpt_step(tokens, sequence, layers, width, vocab_size, checkpointing="none"):
    """FLOP of forward and backward: those of the model, and those that the hardware does.

    Parameters
    ----------
    checkpointing
        "none"; "selective" (attention is recomputed) or "full" (all blocks are).

    Returns
    -------
    tuple
        `(model, hardware)`; MFU takes the first, HFU the second.
    """
    forward = gpt_forward(tokens, sequence, layers, width, vocab_size)
    model = 3 * sum(forward.values())
    again = {"none": (), "selective": ("attention",), "full": ("linear", "attention")}
    return model, model + sum([forward[part] for part in again[checkpointing]])


def kaplan(parameters, tokens):
    """6Ψ a token, the rule of thumb, Ψ without embeddings.

    J. Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361, section 2.1.
    """
    return 6 * parameters * tokens


def palm(parameters, tokens, sequence, layers, width):
    """6Ψ + 12Lsh a token: attention counted, and all of Ψ.

    A. Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B. For a model whose embedding is also
    its output layer Ψ counts that product; position embedding, biases and norms are counted too,
    though they make none, which is less than 1 % of it.
    """
    return (6 * parameters + 12 * layers * sequence * width) * tokens


def narayanan(batch, sequence, layers, width, vocab_size, recompute=True):
    """96BsLh²(1 + s/6h + V/16Lh), forward recomputed; 72BsLh²(1 + s/6h + V/12Lh) without.

    D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", SC 2021, arXiv:2104.04473, equation 3 and its appendix.
    """
    b, s, layers_h = batch, sequence, layers * width
    if recompute:
        scale = 1 + s / (6 * width) + vocab_size / (16 * layers_h)
        return 96 * b * s * layers_h * width * scale
    scale = 1 + s / (6 * width) + vocab_size / (12 * layers_h)
    return 72 * b * s * layers_h * width * scale


def korthikanti(batch, sequence, layers, width, vocab_size):
    """FLOP of model and hardware with selective recomputation, as published: s/6h becomes s/3h.

    V. Korthikanti et al., arXiv:2205.05198, section 4.3. One more forward of attention is a third
    of the term s/6h and would make it 2s/9h, as `gpt_step` counts it; the published HFU follow
    s/3h.

    Returns
    -------
    tuple
        `(model, hardware)`.
    """
    scale = 72 * batch * sequence * layers * width * width
    logits = vocab_size / (12 * width * layers)
    once = sequence / (6 * width)
    return scale * (1 + once + logits), scale * (1 + 2 * once + logits)


def convolutions(batch, layers):
    """FLOP of a ResNet's convolutions in forward, each layer as `tensors.resnet_convolutions`."""
    return [
        2 * batch * outputs * side * side * inputs * kernel * kernel
        for _, inputs, outputs, kernel, side in layers
    ]


def resnet_step(batch, layers, classes_in, classes=10):
    """FLOP of a ResNet's forward and backward.

    The first convolution has no gradient of its input to compute: pictures need none.
    """
    forward = convolutions(batch, layers)
    head = 2 * batch * classes_in * classes
    return 3 * (sum(forward) + head) - forward[0]


def utilisation(flop, seconds, devices, peak):
    """Share of the peak: MFU with the model's FLOP, HFU with those that the hardware did.

    Parameters
    ----------
    flop
        Of one step of the whole world.
    seconds
        Of that step.
    devices
        How many computed.
    peak
        Dense peak of one, FLOP/s; see `hardware`.
    """
    return flop / (seconds * devices * peak)
