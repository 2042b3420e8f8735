"""What papers print of activations and FLOP, to set the library's counts beside it."""


def korthikanti_bytes(sequence, batch, width, heads, tensor_parallel=1, form="none"):
    """Bytes per layer of a Megatron transformer in 16 bits, with dropout: of s, b, h, a and t.

    `form` is "none", "sequence" (sequence parallel), "selective" (attention recomputed), "both", or
    "full" (only the layer's input is kept).
    """
    sbh, t = sequence * batch * width, tensor_parallel
    scores = 5 * heads * sequence / (width * t)
    if form == "full":
        return 2 * sbh
    if form in ("sequence", "both"):
        return sbh * (34 / t + (0 if form == "both" else scores))
    return sbh * (10 + 24 / t + (0 if form == "selective" else scores))


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


def korthikanti_flop(batch, sequence, layers, width, vocab_size):
    """FLOP `(model, hardware)` with selective recomputation, as published: s/6h becomes s/3h.

    V. Korthikanti et al., arXiv:2205.05198, section 4.3. One more forward of attention is a third
    of the term s/6h and would make it 2s/9h, as `gpt_step` counts it; the published HFU follow
    s/3h.
    """
    scale = 72 * batch * sequence * layers * width * width
    logits = vocab_size / (12 * width * layers)
    once = sequence / (6 * width)
    return scale * (1 + once + logits), scale * (1 + 2 * once + logits)


def utilisation(flop, seconds, devices, peak):
    """Share of the peak: MFU with the model's FLOP, HFU with those that the hardware did.

    `flop` and `seconds` are those of one step of the whole world, on so many devices; `peak` is the
    dense one of each, in FLOP/s (see `sim.hardware`).
    """
    return flop / (seconds * devices * peak)
