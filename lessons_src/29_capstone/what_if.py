"""Node-hours over the number of GPUs. Numbers only: runs in a page."""

from dtlib.sim.flops import gpt_step
from dtlib.sim.hardware import peak
from dtlib.sim.node_hours import extrapolated, node_hours
from dtlib.sim.shapes import GPT, GPT2_VOCABULARY

NODE = 8  # GPUs


def request(efficiency, mfu, tokens, power):
    """Compute what a GPT-2 XL costs for the sliders.

    Parameters
    ----------
    efficiency
        Measured in weak scaling on 2 ranks, in per cent.
    mfu
        Share of an H100's peak in bf16 that one GPU reaches, in per cent.
    tokens
        Of one run, in 10⁹.
    power
        The run has 2**power GPUs.

    Returns
    -------
    dict
        `curves` of node-hours over GPUs, the chosen `point`, and what it `says`.
    """
    shape = GPT["gpt2-xl"]
    size = (shape["context"], shape["layers"], shape["width"], GPT2_VOCABULARY)
    flop = gpt_step(tokens * 1e9, size[0], size[1], size[2], size[3])[0]

    def cost(gpus):
        share = extrapolated("weak", efficiency / 100, 2, gpus)
        return node_hours(flop, peak("h100", "bf16"), mfu / 100, share, NODE)

    counts = [2**k for k in range(9)]
    ideal = cost(1)
    gpus = 2**power
    hours = cost(gpus)
    share, wall = ideal / hours, hours * NODE / gpus
    return {
        "curves": {
            "with your loss": [[n, cost(n)] for n in counts],
            "if nothing is lost": [[n, ideal] for n in counts],
        },
        "point": [gpus, hours],
        "x": "GPUs",
        "y": "node-hours of one run",
        "log_x": True,
        "says": f"Simulated, {gpus} GPUs: an efficiency of {share:.2f}. One run costs"
        f" {hours:.4g} node-hours instead of {ideal:.4g}, and takes {wall:.3g} hours.",
    }
