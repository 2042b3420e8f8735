"""What a layout of ranks costs: bytes held and sent, idle time, groups, nodes, and whether it fits.

The formulas are those of `tensor_parallel`, `pipeline`, `states` and `traffic`, put together as in
D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021,
arXiv:2104.04473, sections 2 and 3; ring attention as in `context_parallel`.

Plain functions on numbers and dicts: they also run in the browser. Shapes, meshes and steps as in
`layout_rank`.
"""

from dtlib.sim.activations import STREAM
from dtlib.sim.context_parallel import ring_traffic
from dtlib.sim.layout_rank import (
    TALKS,
    held,
    micro_batch_size,
    problems,
    stage_parameters,
)
from dtlib.sim.mesh import AXES, nodes_spanned, size
from dtlib.sim.pipeline import bubble, messages
from dtlib.sim.states import share
from dtlib.sim.tensor_parallel import edges, loss, partial_gradients
from dtlib.sim.traffic import TRAVELS, collective, data_parallel, stage_1_or_2, stage_3


def sent(shape, mesh, step, stage):
    """What a rank at this place on `pipeline` sends in a step: rows of `traffic`, with an `axis`.

    An axis of one rank sends nothing, and has no rows.
    """
    by_axis = {
        "tensor": over_tensor(shape, mesh, step, stage),
        "context": over_context(shape, mesh, step),
        "data": over_data(shape, mesh, step, stage),
        "pipeline": over_pipeline(shape, mesh, step, stage),
    }
    rows = []
    for axis in AXES:
        for row in by_axis[axis]:
            if row["wire"]:
                row["axis"] = axis
                rows.append(row)
    return rows


def over_tensor(shape, mesh, step, stage):
    """f and g, four times a block and once at each end of the model, and the loss.

    What is recomputed calls them twice more in each block.
    """
    ranks, many, apart = mesh["tensor"], step["accumulation"], step["sequence_parallel"]
    long, sequences, width = micro_batch_size(shape, mesh, step)
    last = stage == mesh["pipeline"] - 1
    each = 6 if step["recompute"] == "full" else 4
    times = each * share(shape["layers"], mesh["pipeline"]) + (stage == 0) + last
    rows = edges(long, sequences, width, many * times, ranks, element(step), apart)
    if apart:
        whole = stage_parameters(shape, mesh, stage)[1]
        rows.append(partial_gradients(whole, ranks, TRAVELS[step["recipe"]][1]))
    if last:
        rows += loss(long * sequences, ranks, element(step), many)
    return rows


def element(step):
    """Bytes of an element of what a block's matrices take and give, keys and values among them."""
    return STREAM[step["recipe"]][1]


def over_context(shape, mesh, step):
    """Ring attention; recomputation passes keys and values on once more."""
    heads = share(shape["kv_heads"], mesh["tensor"])
    size_of_head = shape["width"] // shape["heads"]
    blocks = step["accumulation"] * share(shape["layers"], mesh["pipeline"])
    around = step["micro_batch"], shape["sequence"], heads, size_of_head, mesh["context"]
    rows = ring_traffic(*around, element(step), layers=blocks)
    if step["recompute"] == "full":
        rows.append(ring_traffic(*around, element(step), layers=blocks)[0])
    return rows


def over_data(shape, mesh, step, stage):
    """Gradients, and under ZeRO weights, among the ranks that have equal weights.

    Stage 2 reduces gradients in every micro-batch, stage 3 gathers weights there too.
    """
    ranks, many = size(TALKS["data"], mesh), step["accumulation"]
    weight, gradient = TRAVELS[step["recipe"]]
    here = sum(stage_parameters(shape, mesh, stage))
    if step["zero"] == 0:
        return data_parallel(here, ranks, gradient)
    if step["zero"] == 3:
        return stage_3(here, ranks, weight, gradient, many, many)
    return stage_1_or_2(here, ranks, weight, many if step["zero"] == 2 else 1, "paper")


def over_pipeline(shape, mesh, step, stage):
    """Activations and their gradients between neighbours, and the gradient of tied weights.

    With sequence parallelism a rank sends its own positions, otherwise each rank of `tensor` sends
    all of them.
    """
    ranks, many = mesh["pipeline"], step["accumulation"]
    long, sequences, width = micro_batch_size(shape, mesh, step)
    each = long * sequences * width
    if step["sequence_parallel"]:
        each //= mesh["tensor"]
    times, stream = messages(stage, ranks, many, step["chunks"]), STREAM[step["recipe"]][0]
    rows = [collective("send", "activations and their gradients", each, ranks, stream, times)]
    if ranks > 1 and stage in (0, ranks - 1):
        words = share(shape["vocab_size"], mesh["tensor"]) * width
        tied = "gradient of the tied embedding"
        rows.append(collective("all_reduce", tied, words, 2, TRAVELS[step["recipe"]][1]))
    return rows


def layout(shape, mesh, step, memory, ranks_per_node, order=AXES):
    """Everything about a layout, for its fullest place on `pipeline`.

    Parameters
    ----------
    shape, mesh, step
        As in `layout_rank`; `step` is what `step_of` returns.
    memory
        Bytes of a device.
    ranks_per_node
        How many ranks a node has.
    order
        The axes, outermost first: see `mesh`.

    Returns
    -------
    dict
        `ranks`; `stage`, the fullest place on `pipeline`; `parameters` (elements) and `held` (bytes
        by what they are) of a rank there, their `total`, the `largest` of them by name, and `fits`;
        `sent`, its rows, and `wire`, their bytes by axis; `nodes`, over how many a group of each
        axis spreads, and `crosses`, the axes whose groups leave a node; `bubble`, idle over
        computing time; `tokens` of a step; `problems`, sentences.
    """
    of_stages = [held(shape, mesh, step, stage) for stage in range(mesh["pipeline"])]
    totals = [sum(kinds.values()) for kinds in of_stages]
    total = max(totals)
    stage = totals.index(total)
    kinds, rows = of_stages[stage], sent(shape, mesh, step, stage)
    nodes = {axis: nodes_spanned(TALKS[axis], mesh, ranks_per_node, order) for axis in AXES}
    many = step["accumulation"]
    return {
        "ranks": size(AXES, mesh),
        "stage": stage,
        "parameters": sum(stage_parameters(shape, mesh, stage)),
        "held": kinds,
        "total": total,
        "largest": max(kinds, key=lambda kind: kinds[kind]),
        "fits": total <= memory,
        "sent": rows,
        "wire": {axis: sum([row["wire"] for row in rows if row["axis"] == axis]) for axis in AXES},
        "nodes": nodes,
        "crosses": [axis for axis in AXES if nodes[axis] > 1],
        "bubble": bubble(step["schedule"], mesh["pipeline"], many, chunks=step["chunks"]),
        "tokens": shape["sequence"] * step["micro_batch"] * many * mesh["data"],
        "problems": problems(shape, mesh, step),
    }
