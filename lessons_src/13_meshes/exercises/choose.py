"""Exercise 13.4: a layout for a model, by the rules of published runs."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution

# words of the solution
FITS_T = "gb / tensor > card"
NODE, HEADS = "2 * tensor <= per_node", "heads % (2 * tensor) == 0"
FITS_P = "gb / (tensor * pipeline) > card"
LAYERS, REST = "layers % pipeline", "(gpus // tensor) % pipeline"

choose_layout = solution("choose_layout", globals())


def case(gb, card, gpus, per_node, heads, layers):
    words = (f"{gb} GB of states, cards of {card} GB, {gpus} GPUs in nodes of {per_node}, {heads} "
             f"heads, {layers} layers")  # fmt: skip
    return words, (gb, card, gpus, per_node, heads, layers)


def stages(gb, card, gpus, layers):
    """The first number of stages that divides layers and GPUs and fits, or the last of them."""
    possible = [k for k in range(1, gpus + 1) if not layers % k and not gpus % k]
    return next((k for k in possible if gb / k <= card), possible[-1])


def pipeline_first(gb, card, gpus, per_node, heads, layers):
    """Stages up to the limit of layers and GPUs, then tensor."""
    pipeline, tensor = stages(gb, card, gpus, layers), 1
    while gb / (pipeline * tensor) > card:
        tensor *= 2
    return gpus // (pipeline * tensor), pipeline, tensor


def tensor_ignored(gb, card, gpus, per_node, heads, layers):
    """The stages alone have to make it fit."""
    _, _, tensor = choose_layout(gb, card, gpus, per_node, heads, layers)
    pipeline = stages(gb, card, gpus // tensor, layers)
    return gpus // (tensor * pipeline), pipeline, tensor


def full_node(gb, card, gpus, per_node, heads, layers):
    """Tensor always fills the node."""
    pipeline = 1
    while gb / (per_node * pipeline) > card or layers % pipeline:
        pipeline += 1
    return gpus // (per_node * pipeline), pipeline, per_node


def tensor_alone(gb, card, gpus, per_node, heads, layers):
    tensor = 1
    while gb / tensor > card:
        tensor *= 2
    return gpus // tensor, 1, tensor


def most_stages(gb, card, gpus, per_node, heads, layers):
    """As many stages as there can be."""
    _, _, tensor = choose_layout(gb, card, gpus, per_node, heads, layers)
    rest = gpus // tensor
    pipeline = max(k for k in range(1, rest + 1) if not layers % k and not rest % k)
    return rest // pipeline, pipeline, tensor


def doubled(gb, card, gpus, per_node, heads, layers):
    """Stages in powers of two."""
    _, _, tensor = choose_layout(gb, card, gpus, per_node, heads, layers)
    pipeline = 1
    while gb / (tensor * pipeline) > card:
        pipeline *= 2
    return gpus // (tensor * pipeline), pipeline, tensor


def data_counts(gb, card, gpus, per_node, heads, layers):
    """As if data parallelism divided the states."""
    return choose_layout(gb / gpus, card, gpus, per_node, heads, layers)


def one_more(gb, card, gpus, per_node, heads, layers):
    """Tensor grows by one."""
    tensor = 1
    while gb / tensor > card and tensor < per_node:
        tensor += 1
    pipeline = stages(gb / tensor, card, gpus // tensor, layers)
    return gpus // (tensor * pipeline), pipeline, tensor


def odd_tensor(got):
    """Tensor is none of 1, 2, 4, …"""
    return got[2] not in [2**k for k in range(12)]


def one_layer_forgotten(gb, card, gpus, per_node, heads, layers):
    """A stage never gets one layer alone."""
    _, _, tensor = choose_layout(gb, card, gpus, per_node, heads, layers)
    rest = gpus // tensor
    for k in range(1, layers):
        if not rest % k and not layers % k and gb / (tensor * k) <= card:
            return rest // k, k, tensor
    return rest, 1, tensor


def not_all(got, gpus):
    """The product is not the number of GPUs."""
    product = got[0] * got[1] * got[2]
    return product != gpus and {"product": f"{product:g}"}


def facts(got, want, gb, card):
    parts = ("data", "pipeline", "tensor")
    off = next((k for k in (2, 1, 0) if got[k] != want[k]), 0)
    part = gb / max(got[1] * got[2], 1e-9)
    return {"axis": parts[off], "mine": f"{got[off]:g}", "right": f"{want[off]:g}",
            "part": f"{part:.4g}", "layout": " × ".join(
                f"{name} {value:g}" for name, value in zip(parts, got, strict=True)),
            "product": f"{got[0] * got[1] * got[2]:g}"}  # fmt: skip


EXERCISE = Answer(
    choose_layout,
    read=several(3, "three"),
    cases=[
        case(31, 80, 32, 8, 24, 24),  # everything on one GPU
        case(160, 80, 128, 8, 32, 36),  # a half fits exactly
        case(640, 80, 64, 8, 64, 48),  # and an eighth
        case(161, 40, 64, 8, 64, 48),  # a quarter is a little too large
        case(1300, 80, 512, 8, 64, 48),
        case(1000, 80, 48, 8, 12, 24),  # 8 does not divide the heads
        case(700, 80, 60, 4, 16, 25),  # stages that are no power of two
        case(1000, 80, 72, 4, 16, 24),  # the rest of the GPUs decides
        case(2560, 80, 64, 8, 64, 4),  # a stage is one layer
        case(3150, 40, 1024, 8, 96, 96),  # GPT-3, and the layout that it was trained in
    ],
    mistakes=[
        ("pipeline_first", pipeline_first),
        ("full_node", full_node),
        ("beyond_node", {NODE: "True"}),
        ("beyond_node", tensor_alone),
        ("heads", {HEADS: "True"}),
        ("layers", {LAYERS: "False"}),
        ("rest", {REST: "False"}),
        ("rest", {REST: "gpus % pipeline"}),
        ("doubled", doubled),
        ("most_stages", most_stages),
        ("exact", {FITS_T: "gb / tensor >= card"}),
        ("exact", {FITS_P: "gb / (tensor * pipeline) >= card"}),
        ("data_counts", data_counts),
        ("tensor_ignored", tensor_ignored),
        ("no_pipeline", {FITS_P: "False"}),
        ("two_layers", one_layer_forgotten),
        ("reversed", lambda *given: choose_layout(*given)[::-1]),
        ("half_node", {NODE: "2 * tensor < per_node"}),
        ("data_of_all", {"gpus // (tensor * pipeline), pipeline": "gpus, pipeline"}),
        Mistake("not_doubled", one_more, when=odd_tensor),
        Mistake("not_all", {"gpus // (tensor * pipeline), pipeline": "1, pipeline"}, when=not_all),
    ],
    facts=facts,
)  # fmt: skip
