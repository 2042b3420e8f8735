"""One rank of a layout: its part of a GPT, and the bytes that it holds.

The layers are divided over `pipeline`, the matrices over `tensor`, positions over `context`, and
samples over `data`. Ranks that differ on `data` or `context` have the same weights: together they
average gradients, and ZeRO shards over them, as in W. Liang et al., "TorchTitan", arXiv:2410.06511.

Bytes are those that the method needs (`kept="paper"`). Left out: what the ends of the model keep
beside logits, a block that ZeRO 3 has gathered, fragmentation.

Plain functions on numbers and dicts: they also run in the browser. A shape is a dict of `layers`,
`width`, `heads`, `kv_heads`, `sequence` and `vocab_size`; a mesh is one of the axes of `mesh.AXES`.
"""

from dtlib.sim.activations import STREAM, logits
from dtlib.sim.mesh import size
from dtlib.sim.pipeline import kept_activations
from dtlib.sim.states import model_states, share
from dtlib.sim.tensor_parallel import block_activations, cut_and_whole
from dtlib.sim.tensors import gpt_block

# The ranks that talk to each other for the sake of each axis.
TALKS = {
    "tensor": ("tensor",),
    "context": ("context",),
    "data": ("data", "context"),  # equal weights: they average gradients
    "pipeline": ("pipeline",),
}
STRATEGIES = ("ddp", "zero1", "zero2", "zero3")


def step_of(
    micro_batch=1, accumulation=1, zero=0, schedule="1f1b", chunks=1, sequence_parallel=False,
    recompute="none", recipe="mixed", optimizer="adamw",
):  # fmt: skip
    """How a step is done, as the dict that the other functions take.

    Parameters
    ----------
    micro_batch, accumulation
        Sequences in a micro-batch, and micro-batches of a step in each place on `data`.
    zero
        Stage of ZeRO, 0 to 3.
    schedule, chunks
        Of the pipeline: see `pipeline.bubble`.
    sequence_parallel
        Ranks of `tensor` divide the positions outside of f and g.
    recompute
        "none", or "full": of a block only the input is kept.
    recipe, optimizer
        Keys of `states.RECIPES` and `states.MOMENTS`.
    """
    return {
        "micro_batch": micro_batch, "accumulation": accumulation, "zero": zero,
        "schedule": schedule, "chunks": chunks, "sequence_parallel": sequence_parallel,
        "recompute": recompute, "recipe": recipe, "optimizer": optimizer,
    }  # fmt: skip


def problems(shape, mesh, step):
    """What does not divide, as sentences; where there are any, the numbers are rounded up."""
    found = []
    tensor, context, pipeline = mesh["tensor"], mesh["context"], mesh["pipeline"]
    cut = context * (tensor if step["sequence_parallel"] else 1)
    stages, many = pipeline * step["chunks"], step["accumulation"]
    for parts, name, whole, what in (
        (tensor, "ranks of tensor", shape["heads"], "heads"),
        (tensor, "ranks of tensor", shape["kv_heads"], "heads of keys and values"),
        (stages, "stages", shape["layers"], "layers"),
        (cut, "parts of a sequence", shape["sequence"], "positions"),
    ):
        if whole % parts:
            found.append(f"{parts} {name} do not divide {whole} {what}.")
    if step["schedule"] == "interleaved" and many % pipeline:
        found.append(f"{pipeline} ranks of pipeline do not divide {many} micro-batches.")
    if step["schedule"] == "zb-h1" and many < pipeline:
        found.append(f"ZB-H1 takes at least {pipeline} micro-batches; there are {many}.")
    return found


def key_width(shape):
    """Width of all keys, or of all values: less than the model's where heads share them."""
    return shape["width"] // shape["heads"] * shape["kv_heads"]


def stage_parameters(shape, mesh, stage):
    """Elements on a rank at this place on `pipeline`: `(cut, whole)`, by `tensor`.

    The first place has the embedding; the last has it too, as its output layer, where it is tied.
    """
    last, width = mesh["pipeline"] - 1, shape["width"]
    words = [("wte.weight", (shape["vocab_size"], width))]
    found = gpt_block(width, "h", key_width(shape)) * share(shape["layers"], mesh["pipeline"])
    if stage == 0:
        found += words
        found.append(("wpe.weight", (shape["sequence"], width)))
    if stage == last:
        found += [("ln_f.weight", (width,)), ("ln_f.bias", (width,))]
        found += words if stage else []
    return cut_and_whole(found, mesh["tensor"])


def micro_batch_size(shape, mesh, step):
    """Positions, sequences and width of what a rank computes at a time."""
    return share(shape["sequence"], mesh["context"]), step["micro_batch"], shape["width"]


def block_kept(shape, mesh, step, recompute="none"):
    """Bytes that a rank keeps of one block for one micro-batch."""
    long, sequences, width = micro_batch_size(shape, mesh, step)
    recipe, tensor, cut = step["recipe"], mesh["tensor"], step["sequence_parallel"]
    if recompute == "full":
        return STREAM[recipe][0] * long * sequences * width / (tensor if cut else 1)
    way = shape["heads"], recipe, tensor, cut, "paper", key_width(shape)
    return block_activations(long, sequences, width, *way)


def held(shape, mesh, step, stage):
    """Bytes on a rank at this place on `pipeline`, by what they are.

    The model states between backward and the optimizer's step, as the method needs them;
    `activations` of the micro-batches that the schedule keeps at once, with flash attention, and a
    block that is being recomputed; `logits` while the loss of one micro-batch goes backward.
    """
    stages, many = mesh["pipeline"], step["accumulation"]
    elements_here = sum(stage_parameters(shape, mesh, stage))
    way = STRATEGIES[step["zero"]], step["recipe"], step["optimizer"]
    found = dict(
        model_states(elements_here, size(TALKS["data"], mesh), *way, kept="paper")["device"]
    )
    at_once = 1
    if stages > 1:
        at_once = kept_activations(step["schedule"], stage, stages, many, step["chunks"])
    blocks = at_once * share(shape["layers"], stages)
    found["activations"] = blocks * block_kept(shape, mesh, step, step["recompute"])
    if step["recompute"] == "full":
        found["activations"] += block_kept(shape, mesh, step)
    found["logits"] = 0
    if stage == stages - 1:
        long, sequences, _ = micro_batch_size(shape, mesh, step)
        words = share(shape["vocab_size"], mesh["tensor"])
        found["logits"] = logits(long * sequences, words, step["recipe"])[1]
    return found
