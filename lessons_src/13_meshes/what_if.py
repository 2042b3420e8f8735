"""A layout of ranks: what a rank holds and sends. Numbers only: runs in a page."""

from dtlib.sim.layout import layout
from dtlib.sim.layout_rank import held, step_of
from dtlib.sim.mesh import AXES

# Layers, width, heads of models of D. Narayanan et al., arXiv:2104.04473, table 1; the third: GPT-3
MODELS = (("7.5B", 36, 4096, 32), ("39B", 48, 8192, 64), ("175B", 96, 12288, 96),
          ("1008B", 128, 25600, 160))  # fmt: skip
CARD = 80e9


WORDS = {"optimizer": "optimizer state", "fp32_copy": "fp32 copy of the weights"}


def shape_of(model):
    _, layers, width, heads = MODELS[model]
    return {
        "layers": layers, "width": width, "heads": heads, "kv_heads": heads, "sequence": 2048,
        "vocab_size": 51200,
    }  # fmt: skip


def gb(number):
    """Bytes in words."""
    return f"{number / 1e9:.0f} GB" if number > 1e12 else f"{number / 1e9:.3g} GB"


def fullest_gb(model, mesh, step):
    """GB on the fullest rank of both ends of the pipeline."""
    most = 0
    for stage in (0, mesh["pipeline"] - 1):
        kinds = held(shape_of(model), mesh, step, stage)
        most = max(most, sum([kinds[kind] for kind in kinds]))
    return most / 1e9


def layout_curve(model, data, pipeline, context, tensor, gpus, sequences, zero):
    """GB on a rank over the ranks along tensor, for the sliders of a what-if.

    All but `model` and `zero` are exponents of 2; `sequences` are those of a data rank in a step.
    """
    step = step_of(accumulation=2**sequences, zero=zero, sequence_parallel=True)
    mesh = {"data": 2**data, "pipeline": 2**pipeline, "context": 2**context, "tensor": 1}
    curve = []
    for power in range(6):
        mesh["tensor"] = 2**power
        curve.append([2**power, fullest_gb(model, mesh, step)])
    mesh["tensor"] = 2**tensor
    found = layout(shape_of(model), mesh, step, CARD, 2**gpus)
    talks = []
    for axis in AXES:
        if found["wire"][axis]:
            where = "across nodes" if found["nodes"][axis] > 1 else "inside a node"
            talks.append(f"{gb(found['wire'][axis])} along {axis} ({where})")
    told = "In a step it sends " + ", ".join(talks) + ". " if talks else ""
    fits = "fits into" if found["fits"] else "does not fit into"
    ranks = "1 rank" if found["ranks"] == 1 else f"{found['ranks']} ranks"
    most = WORDS.get(found["largest"], found["largest"])
    return {
        "curves": {"held by a rank": curve, "a GPU of 80 GB": [[1, 80], [32, 80]]},
        "point": [2**tensor, found["total"] / 1e9],
        "x": "ranks along tensor",
        "y": "GB on a rank",
        "log_x": True,
        "says": f"Simulated: {MODELS[model][0]} parameters on {ranks}. The fullest rank holds "
        + f"{gb(found['total'])}, mostly {most}, and {fits} 80 GB. {told}The bubble is "
        + f"{found['bubble']:.3g} of the computing time. "
        + " ".join(found["problems"]),
    }
