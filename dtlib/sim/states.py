"""Bytes of the model states that a rank holds: weights, gradients, optimizer, fp32 copy.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
SC 2020, arXiv:1910.02054, section 3.1 and figure 1. Plain functions on numbers, no imports: they
also run in the browser. Symbols: Ψ parameters, N ranks.
"""

# Bytes per parameter: weight, gradient, fp32 copy of the weight, one moment of the optimizer.
RECIPES = {
    "mixed": (2, 2, 4, 4),  # the paper's 2+2+12 with Adam: weights themselves in bf16 or fp16
    "autocast": (4, 4, 0, 4),  # fp32 weights; torch.autocast makes bf16 copies as it goes
    "policy": (4, 4, 0, 4),  # FSDP's: fp32 shards; they are gathered, and compute, in bf16
    "fp32": (4, 4, 0, 4),  # 4+4+8
    "fp64": (8, 8, 0, 8),
}
MOMENTS = {"adamw": 2, "sgd": 1, "sgd-plain": 0}  # sgd with momentum keeps one

# What is divided among the ranks: w(eights), g(radients), o(ptimizer, and the fp32 copy with it).
# A pipeline's rank holds its stages' parameters, of which nothing is divided.
DIVIDED = {
    "single": "", "ddp": "", "accelerate": "", "lightning": "", "zero1": "o", "zero2": "go",
    "zero3": "wgo", "offload": "go", "infinity": "wgo", "fsdp": "wgo",
    "pipeline": "",
    "tensor": "",  # of its part of the matrices, which `tensor_parallel` counts
}  # fmt: skip
ALIASES = {"dp": "ddp"}
# The strategies that DeepSpeed runs, and their default stages of ZeRO.
STAGES = {"zero1": 1, "zero2": 2, "zero3": 3, "offload": 2, "infinity": 3}


def recipe(strategy, precision):
    """Name of the recipe that a strategy follows in dtlib at a `--precision`.

    DeepSpeed converts the weights themselves to bf16 or fp16; all others keep fp32 weights.
    """
    if precision == "tf32":  # products are rounded, stored values are not
        return "fp32"
    if precision not in ("bf16", "fp16"):
        return precision
    if strategy in ("fsdp", "tensor"):
        return "policy"
    return "mixed" if strategy in STAGES else "autocast"


def share(elements, ranks):
    """Elements of a rank's shard: ⌈n/N⌉, because shards are padded to equal size."""
    return -(-elements // ranks)


def updated(name, optimizer, kept="framework"):
    """Bytes per parameter that DeepSpeed's optimizer reads and writes: moments and fp32 copy."""
    _, _, copy, moment = RECIPES[name]
    if kept == "framework" and name == "fp32":
        copy = 4
    return copy + MOMENTS[optimizer] * moment


def model_states(
    parameters, ranks, strategy, precision, optimizer="adamw", zero_stage=None, shard_ranks=None,
    cpu_offload=False, kept="framework",
):  # fmt: skip
    """Bytes per rank between backward and step, by place and kind.

    Parameters
    ----------
    parameters
        Ψ, of the bare model, tied weights once.
    ranks
        N.
    strategy
        A key of `DIVIDED`.
    precision
        A key of `RECIPES`, or bf16 or fp16, which each strategy implements in its own way.
    optimizer
        A key of `MOMENTS`.
    zero_stage
        1, 2 or 3 for `offload` (default: 2).
    shard_ranks
        Ranks in a shard group of `fsdp` (default: N); the groups are replicas of each other.
    cpu_offload
        `fsdp` keeps its shards in the host's memory.
    kept
        "framework": what torch or DeepSpeed really keeps; "paper": what the method needs. They
        differ where DeepSpeed trains in fp32 (a further fp32 copy of the rank's shard, 4Ψ/N) and
        where it offloads (gradients wait on the host in fp32).

    Returns
    -------
    dict
        `device`, `host` and `disk`, each a dict of `parameters`, `gradients`, `optimizer` and
        `fp32_copy` in bytes.
    """
    name = recipe(strategy, precision)
    weight, gradient, copy, moment = RECIPES[name]
    divided = DIVIDED[strategy]
    if strategy == "offload" and zero_stage:
        divided = {1: "o", 2: "go", 3: "wgo"}[zero_stage]
    group = shard_ranks if strategy == "fsdp" and shard_ranks else ranks
    framework = kept == "framework" and strategy in STAGES
    if framework and name == "fp32":
        copy = 4
    if framework and strategy in ("offload", "infinity"):
        gradient = max(gradient, 4)
    whole = {"w": parameters, "g": parameters, "o": parameters}
    for key in divided:
        whole[key] = share(parameters, group)
    held = {
        "parameters": weight * whole["w"],
        "gradients": gradient * whole["g"],
        "optimizer": MOMENTS[optimizer] * moment * whole["o"],
        "fp32_copy": copy * whole["o"],
    }
    return placed(held, strategy, cpu_offload)


def placed(held, strategy, cpu_offload):
    """Put each kind of `held` where the strategy keeps it."""
    where = dict.fromkeys(held, "device")
    if strategy == "offload":
        where["gradients"] = where["optimizer"] = where["fp32_copy"] = "host"
    if strategy == "infinity":
        where = dict.fromkeys(held, "disk")
        where["gradients"] = "host"
    if strategy == "fsdp" and cpu_offload:
        where = dict.fromkeys(held, "host")
    return {
        place: {kind: held[kind] if where[kind] == place else 0 for kind in held}
        for place in ("device", "host", "disk")
    }


def padded_flat(elements, ranks, alignment=2):
    """Elements of a flat group that DeepSpeed's stages 1 and 2 pad to a multiple of 2N.

    Each of the optimizer's parameter groups is one flat group; dtlib's optimizers have two, with
    and without weight decay.
    """
    unit = ranks * alignment
    return -(-elements // unit) * unit


def padded_each(sizes, ranks):
    """Elements of tensors of these `sizes`, each padded to a multiple of N as in stage 3."""
    return sum([share(size, ranks) * ranks for size in sizes])


def padded_rows(shapes, ranks):
    """Elements of all tensors when each is cut along its first dimension into ⌈rows/N⌉ rows.

    This is N times what `fully_shard` allocates on a rank; `shapes` are pairs `(name, sizes)`.
    """
    total = 0
    for _, sizes in shapes:
        row = 1
        for size in sizes[1:]:
            row *= size
        total += share(sizes[0], ranks) * ranks * row
    return total
