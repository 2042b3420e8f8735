"""Which GPT-2 fits on which card under which strategy: plain functions, also for sliders.

The rule is that of S. Rajbhandari et al., "ZeRO", SC 2020, arXiv:1910.02054: 2 + 2 + 12 bytes a
parameter in 16 bits, divided by stage (`states`). Activations and logits are as `activations`
counts them. Buckets and gathered layers are left out here; `estimate` includes them.
"""

from dtlib.sim.activations import gpt, logits
from dtlib.sim.states import model_states

# Layers, width, heads and parameters of the published sizes (Radford et al. 2019), written out
# because a web page has no `dtlib.sim.shapes`; a test compares the two. All have windows of 1,024
# tokens and a vocabulary of 50,257 entries.
GPT2 = [
    ("gpt2", 12, 768, 12, 124439808),
    ("gpt2-medium", 24, 1024, 16, 354823168),
    ("gpt2-large", 36, 1280, 20, 774030080),
    ("gpt2-xl", 48, 1600, 25, 1557611200),
]
STRATEGIES = ["single", "ddp", "zero1", "zero2", "zero3", "offload", "infinity"]
TOKENS, VOCABULARY, GIB = 1024, 50257, 2**30
KINDS = ("parameters", "gradients", "optimizer", "computing")


def computing(layers, width, heads, micro_batch):
    """Bytes of activations and logits when backward begins, in 16 bits with flash attention."""
    kept = gpt(TOKENS, micro_batch, layers, width, heads, "mixed")
    return kept + logits(TOKENS * micro_batch, VOCABULARY, "mixed")[1]


def held(parameters, strategy, ranks, computing_bytes=0):
    """Bytes on a rank's card by kind: states, each at its largest, and activations with logits.

    Parameters
    ----------
    parameters
        Ψ.
    strategy
        One of `STRATEGIES`.
    ranks
        N; `single` and `ddp` divide nothing by it.
    computing_bytes
        Bytes of activations and logits.

    Returns
    -------
    dict
        `parameters`, `gradients`, `optimizer` (with the fp32 copy) and `computing`.
    """
    found = model_states(parameters, ranks, strategy, "mixed", kept="paper")["device"]
    found["optimizer"] += found["fp32_copy"]
    found["computing"] = computing_bytes
    return {kind: found[kind] for kind in KINDS}


def which_fits(model, strategy, ranks, micro_batch, card):
    """Bytes of a rank over the number of ranks, and the card's, for the sliders of a what-if.

    Parameters
    ----------
    model, strategy
        Places in `GPT2` and `STRATEGIES`, from 1 on.
    ranks, micro_batch
        N and b.
    card
        GiB of a card.

    Returns
    -------
    dict
        `curves` in GiB by kind, their sum and the card; `point`, the sum at N; and `says`.
    """
    name, layers, width, heads, psi = GPT2[model - 1]
    way, busy = STRATEGIES[strategy - 1], computing(layers, width, heads, micro_batch)
    counts = sorted({1, 2, 4, 8, 16, 32, 64, ranks})
    sizes = [held(psi, way, n, busy) for n in counts]
    curves: dict = {"all": [], "card": [[n, card] for n in counts]}
    for kind in KINDS:
        curves[kind] = [[counts[i], sizes[i][kind] / GIB] for i in range(len(counts))]
    curves["all"] = [[counts[i], sum(sizes[i].values()) / GIB] for i in range(len(counts))]
    here = sizes[counts.index(ranks)]
    total = sum(here.values()) / GIB
    parts = ", ".join([f"{here[kind] / GIB:.1f} {kind}" for kind in KINDS])
    spare = card - total
    verdict = (
        f"{-spare:.1f} GiB are missing" if spare < 0 else f"It fits, with {spare:.1f} to spare"
    )
    cards = "card" if ranks == 1 else "cards"
    return {
        "curves": curves,
        "point": [ranks, total],
        "x": "ranks N",
        "y": "GiB on each card",
        "log_x": True,
        "says": f"Simulated: {name} ({psi / 1e6:.0f} million parameters) under {way} on {ranks} "
        + f"{cards} of {card} GiB, micro-batch {micro_batch}: {parts}; {total:.1f} GiB. {verdict}.",
    }
