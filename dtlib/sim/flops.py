"""Floating point operations of a training step.

A multiplication and an addition are two operations. Only matrix products, convolutions and
attention count; norms, activations and the optimizer are left out, as in the literature. Backward
takes twice the operations of forward. Attention counts the whole s × s square, even where a causal
mask makes half of it unnecessary.

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
    sequence, layers, width, vocab_size
        s, L, h, V.
    """
    return {
        "linear": 24 * width * width * layers * tokens,
        "attention": 4 * sequence * width * layers * tokens,
        "logits": 2 * width * vocab_size * tokens,
    }


def gpt_step(tokens, sequence, layers, width, vocab_size, checkpointing="none"):
    """FLOP of forward and backward: those of the model, and those that the hardware executes.

    Parameters
    ----------
    checkpointing
        "none" or "selective" (products and attention are kept), "attention" (it is recomputed),
        "linear" (products are, as under selective with DeepSpeed's stage 3), or "full".

    Returns
    -------
    tuple
        `(model, hardware)`; MFU takes the first, HFU the second.
    """
    forward = gpt_forward(tokens, sequence, layers, width, vocab_size)
    model = 3 * sum(forward.values())
    again = {"full": ("linear", "attention"), "none": (), "selective": ()}
    parts = again.get(checkpointing, (checkpointing,))
    return model, model + sum([forward[part] for part in parts])


def kaplan(parameters, tokens):
    """FLOP by the rule of thumb of 6Ψ per token, with Ψ without embeddings.

    J. Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361, section 2.1.
    """
    return 6 * parameters * tokens


def convolutions(batch, layers):
    """FLOP of a ResNet's convolutions in forward, each layer as `tensors.resnet_convolutions`."""
    return [
        2 * batch * outputs * side * side * inputs * kernel * kernel
        for _, inputs, outputs, kernel, side in layers
    ]


def resnet_step(batch, layers, classes_in, classes=10):
    """FLOP of a ResNet's forward and backward.

    The first convolution computes no gradient of its input, because pictures need none.
    """
    forward = convolutions(batch, layers)
    head = 2 * batch * classes_in * classes
    return 3 * (sum(forward) + head) - forward[0]
