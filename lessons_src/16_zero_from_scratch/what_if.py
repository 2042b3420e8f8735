"""Bytes held and elements sent by the stages of ZeRO. Numbers only: runs in a page.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC 2020, arXiv:1910.02054.
"""

from dtlib.sim.states import model_states


def passes(stage, micro_batches):
    """How often Ψ elements go round the ring in a step; (N-1)/N of them leave a rank each time.

    Section 7 of the paper: an all-reduce counts twice; stage 1 sends as much in two halves. From
    stage 2 on a rank keeps no whole gradient, so each micro-batch is reduced by itself; in stage 3
    each micro-batch also gathers the weights twice.
    """
    return (2, 2, micro_batches + 1, 3 * micro_batches)[stage]


def zero_stages(billions, ranks_power, stage, mixed, micro_batches):
    """Bytes held and elements sent by a rank, for the sliders of a what-if.

    Parameters
    ----------
    billions
        Ψ in 10⁹.
    ranks_power
        N is 2 to this power.
    stage
        0 (data parallel) to 3.
    mixed
        1: 2+2+12 bytes a parameter; 0: fp32, 4+4+8.
    micro_batches
        k, in a step.

    Returns
    -------
    dict
        `curves` of GB (10⁹ bytes) over ranks by kind, `point` (all kinds at N), and `says`.
    """
    strategy, precision = ("ddp", "zero1", "zero2", "zero3")[stage], "mixed" if mixed else "fp32"
    kinds = ("weights", "gradients", "optimizer state")
    curves: dict = {"all": []}
    for kind in kinds:
        curves[kind] = []
    for power in range(11):
        held = model_states(billions * 10**9, 2**power, strategy, precision, kept="paper")["device"]
        state = held["optimizer"] + held["fp32_copy"]
        parts = (held["parameters"], held["gradients"], state)
        for k in range(3):
            curves[kinds[k]].append([2**power, parts[k] / 1e9])
        curves["all"].append([2**power, sum(parts) / 1e9])
    ranks = 2**ranks_power
    now = {kind: curves[kind][ranks_power][1] for kind in curves}
    sent = passes(stage, micro_batches) * billions * (ranks - 1) / ranks
    said = " + ".join([f"{now[kind]:.4g} {kind}" for kind in kinds])
    factor = curves["all"][0][1] / now["all"]  # one rank holds what data parallel holds
    return {
        "curves": curves,
        "point": [ranks, now["all"]],
        "x": "ranks N",
        "y": "GB",
        "log_x": True,
        "says": f"Simulated: stage {stage} on {ranks} ranks: {said} = {now['all']:.4g} GB of "
        + f"model states a rank, {factor:.3g} times less than at stage 0. It sends {sent:.4g} "
        + f"billion elements a step (k = {micro_batches}): "
        + f"{(2 if mixed else 4) * sent / 50:.3g} s at 50 GB/s, if nothing hides them.",
    }
