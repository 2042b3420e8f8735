"""What fills a device as the micro-batch grows. Plain numbers, so it runs in a page."""

from dtlib.sim.activations import gpt, gpt_recomputed, logits


def over_micro_batches(layers, width, sequence, batch, bits, checkpointing):
    """Bytes of a step over the micro-batch, for the sliders of a what-if.

    A GPT with GPT-2's vocabulary, heads of width 64 and FlashAttention, trained by AdamW. The end
    of backward, when the two gradients of a tied embedding are added, is left out.

    Parameters
    ----------
    layers, width, sequence, batch
        L, h, s, and the b of the point.
    bits
        32 (fp32), or 16: weights in 16 bits and an fp32 copy of them, the ZeRO paper's 2+2+12.
    checkpointing
        1 to recompute whole blocks, otherwise 0.

    Returns
    -------
    dict
        `curves` in GB (10⁹ bytes) when backward begins, one on top of the other; `point`; and
        `says`, which also has the memory of the optimizer's step.
    """
    states, step = _states(layers, width, sequence, bits)

    def on_top(b):
        kept, most = _blocks_and_logits(layers, width, sequence, b, bits, checkpointing)
        return states, states + kept, states + kept + most

    counts = list(range(1, max(16, 2 * batch) + 1))
    heights = [on_top(b) for b in counts]
    labels = ("states", "+ blocks", "+ logits")
    curves = {}
    for k, label in enumerate(labels):
        curves[label] = [[counts[i], heights[i][k] / 1e9] for i in range(len(counts))]
    _, blocks, all_ = on_top(batch)
    each = on_top(2)[2] - on_top(1)[2]  # what a further sample adds
    room = max(0, int((80e9 - on_top(1)[2]) // each) + 1)
    return {
        "curves": curves,
        "point": [batch, all_ / 1e9],
        "x": "micro-batch b",
        "y": "GB",
        "says": f"{round(step / 16e6)} million weights. When backward begins, "
        + f"{states / 1e9:.1f} GB of weights and optimizer, {(blocks - states) / 1e9:.1f} GB of the"
        + f" blocks and {(all_ - blocks) / 1e9:.1f} GB of logits: {all_ / 1e9:.1f} GB. At the "
        + f"optimizer's step {step / 1e9:.1f} GB. 80 GB hold b = {room if step <= 80e9 else 0}.",
    }


def _states(layers, width, sequence, bits):
    """Bytes of the model states when backward begins, before gradients, and with them: 16Ψ."""
    psi = layers * (12 * width + 13) * width + (50257 + sequence + 2) * width
    return psi * (14 if bits == 16 else 12), 16 * psi


def _blocks_and_logits(layers, width, sequence, batch, bits, checkpointing):
    """Bytes of activations (with what is being recomputed) and of logits, at most."""
    size, recipe = (sequence, batch), "mixed" if bits == 16 else "fp32"
    how = (width // 64, recipe, "flash", "full" if checkpointing else "none")
    kept = gpt(*size, layers, width, *how) + gpt_recomputed(*size, width, *how)
    return kept, logits(sequence * batch, 50257, recipe)[1]
