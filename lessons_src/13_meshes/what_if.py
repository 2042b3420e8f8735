"""A layout of ranks: what a rank holds and sends. Numbers only: runs in a page."""

from dtlib.sim.layout import layout
from dtlib.sim.layout_rank import step_of
from dtlib.sim.mesh import AXES

# Layers, width, heads of models of D. Narayanan et al., arXiv:2104.04473, table 1; the third: GPT-3
MODELS = (("7.5B", 36, 4096, 32), ("39B", 48, 8192, 64), ("175B", 96, 12288, 96),
          ("1008B", 128, 25600, 160))  # fmt: skip
CARD = 80e9


def explored(model, sizes, gpus, sequences, zero):
    """What `layout` says of a model on a mesh whose `sizes` are in the order of `AXES`."""
    _, layers, width, heads = MODELS[model]
    shape = {
        "layers": layers, "width": width, "heads": heads, "kv_heads": heads, "sequence": 2048,
        "vocab_size": 51200,
    }  # fmt: skip
    step = step_of(accumulation=sequences, zero=zero, sequence_parallel=True)
    data, pipeline, context, tensor = sizes
    mesh = {"data": data, "pipeline": pipeline, "context": context, "tensor": tensor}
    return layout(shape, mesh, step, CARD, gpus)


def layout_curve(model, data, pipeline, context, tensor, gpus, sequences, zero):
    """GB on a rank over the ranks along tensor, for the sliders of a what-if.

    All but `model` and `zero` are exponents of 2; `sequences` are those of a data rank in a step.
    """
    others = 2**data, 2**pipeline, 2**context
    per_node, many, curve = 2**gpus, 2**sequences, []
    for power in range(6):
        found = explored(model, (others[0], others[1], others[2], 2**power), per_node, many, zero)
        curve.append([2**power, found["total"] / 1e9])
    ranks = 2**tensor
    found = explored(model, (others[0], others[1], others[2], ranks), per_node, many, zero)
    talks = []
    for axis in AXES:
        if found["wire"][axis]:
            where = "across nodes" if found["nodes"][axis] > 1 else "inside a node"
            talks.append(f"{found['wire'][axis] / 1e9:.3g} GB along {axis} ({where})")
    told = "It sends " + ", ".join(talks) + " in a step. " if talks else ""
    fits = "fits into" if found["fits"] else "does not fit into"
    return {
        "curves": {"held by a rank": curve, "a GPU of 80 GB": [[1, 80], [32, 80]]},
        "point": [ranks, found["total"] / 1e9],
        "x": "ranks along tensor",
        "y": "GB on a rank",
        "log_x": True,
        "says": f"Simulated: {MODELS[model][0]} parameters on {found['ranks']} ranks. The fullest "
        + f"rank holds {found['total'] / 1e9:.3g} GB, most of it {found['largest']}, and {fits} "
        + f"80 GB. {told}Idle for {found['bubble']:.3g} of the computing time. "
        + " ".join(found["problems"]),
    }
