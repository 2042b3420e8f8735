"""Answers to lesson 16's further exercises: a schedule of stage 3, and the paper's two formulas."""

from dtlib.scratch.zero.schedule import (
    AllGather,
    Backward,
    Forward,
    Free,
    OptimizerStep,
    ReduceScatter,
)

# --- 16.3 zero3_schedule --------------------------------------------------------------------


def schedule(layers, keep_forward=False, keep_backward=False, gather_again=True, reduce=True):
    steps = []
    for k in range(layers):
        steps += [AllGather(k), Forward(k)]
        steps += [] if keep_forward else [Free(k)]
    for k in reversed(range(layers)):
        steps += [AllGather(k)] if gather_again else []
        steps += [Backward(k)]
        steps += [] if keep_backward else [Free(k)]
        steps += [ReduceScatter(k)] if reduce else []
    return [*steps, OptimizerStep()]


def no_free_after_forward(layers):
    return schedule(layers, keep_forward=True, gather_again=False)


def gathers_what_is_there(layers):
    return schedule(layers, keep_forward=True)


def no_gather_before_backward(layers):
    return [
        step
        for step in schedule(layers, gather_again=False)
        if not (isinstance(step, Free) and step.block < 0)
    ]


def all_at_the_start(layers):
    steps = [AllGather(k) for k in range(layers)]
    steps += [Forward(k) for k in range(layers)]
    for k in reversed(range(layers)):
        steps += [Backward(k), Free(k), ReduceScatter(k)]
    return [*steps, OptimizerStep()]


def backward_in_forward_order(layers):
    steps = schedule(layers)[: 3 * layers]
    for k in range(layers):
        steps += [AllGather(k), Backward(k), Free(k), ReduceScatter(k)]
    return [*steps, OptimizerStep()]


def no_reduce_scatter(layers):
    return schedule(layers, reduce=False)


def reduces_before_backward(layers):
    steps = schedule(layers)[: 3 * layers]
    for k in reversed(range(layers)):
        steps += [AllGather(k), ReduceScatter(k), Backward(k), Free(k)]
    return [*steps, OptimizerStep()]


def steps_before_the_last_reduction(layers):
    *steps, last = schedule(layers)[:-1]
    return [*steps, OptimizerStep(), last]


def no_free_after_backward(layers):
    return schedule(layers, keep_backward=True)


def keeps_one_too_many(layers):
    """Two layers ahead."""
    steps = [AllGather(k) for k in range(min(3, layers))] if layers > 3 else [AllGather(0)]
    if layers <= 3:
        return schedule(layers)
    for k in range(layers):
        steps += [Forward(k), Free(k)]
        steps += [AllGather(k + 3)] if k + 3 < layers else []
    return steps + schedule(layers)[3 * layers :]


def never_steps(layers):
    return schedule(layers)[:-1]


def steps_for_each_layer(layers):
    steps = schedule(layers)[: 3 * layers]
    for k in reversed(range(layers)):
        steps += [AllGather(k), Backward(k), Free(k), ReduceScatter(k), OptimizerStep()]
    return steps


def computes_without_gathering(layers):
    return [step for step in schedule(layers) if not isinstance(step, AllGather)]


def frees_without_gathering(layers):
    steps = [s for k in range(layers) for s in (AllGather(k), Forward(k), Free(k), Free(k))]
    return steps + schedule(layers)[3 * layers :]


def forward_from_the_end(layers):
    steps = [s for k in reversed(range(layers)) for s in (AllGather(k), Forward(k), Free(k))]
    return steps + schedule(layers)[3 * layers :]


def only_forward(layers):
    return [*schedule(layers)[: 3 * layers], OptimizerStep()]


def layer_by_layer(layers):
    steps = []
    for k in range(layers):
        steps += [AllGather(k), Forward(k), Backward(k), Free(k), ReduceScatter(k)]
    return [*steps, OptimizerStep()]


def counts_from_one(layers):
    return [type(s)(s.block + 1) if hasattr(s, "block") else s for s in schedule(layers)]


def names_the_class(layers):
    return [*schedule(layers)[:-1], OptimizerStep]


def reduces_twice(layers):
    steps = schedule(layers)[:-1]
    return [*steps, *(ReduceScatter(k) for k in range(layers)), OptimizerStep()]


def repeated(kind):
    """A schedule in which every instruction of a kind stands twice in a row."""
    return lambda layers: [
        again for s in schedule(layers) for again in [s] * (2 if isinstance(s, kind) else 1)
    ]


def forward_twice(layers):
    return repeated(Forward)(layers)


def backward_twice(layers):
    return repeated(Backward)(layers)


def steps_twice(layers):
    return repeated(OptimizerStep)(layers)


def reduces_before_it_is_gone(layers):
    return repeated(ReduceScatter)(layers)


def only_the_step(layers):
    return [OptimizerStep()]


# Right.
def keeps_the_last_layer(layers):
    steps = schedule(layers)
    del steps[3 * layers - 1 : 3 * layers + 1]
    return steps


def gathers_one_ahead(layers):
    steps = [AllGather(0)]
    for k in range(layers):
        steps += [AllGather(k + 1)] if k + 1 < layers else []
        steps += [Forward(k), Free(k)]
    steps += [AllGather(layers - 1)]
    for k in reversed(range(layers)):
        steps += [AllGather(k - 1)] if k else []
        steps += [Backward(k), ReduceScatter(k), Free(k)]
    return [*steps, OptimizerStep()]


def yields(layers):
    for k in range(layers):
        yield from (AllGather(k), Forward(k), Free(k))
    for k in range(layers - 1, -1, -1):
        yield from (AllGather(k), Backward(k), Free(k), ReduceScatter(k))
    yield OptimizerStep()


def reduces_at_the_end(layers):
    steps = [s for s in schedule(layers)[:-1] if not isinstance(s, ReduceScatter)]
    return [*steps, *(ReduceScatter(k) for k in range(layers)), OptimizerStep()]


# --- 16.4a held -----------------------------------------------------------------------------


def dealt(psi, n, stage, sizes, sharded=("", "o", "og", "ogp")):
    keys = {"p": "parameters", "g": "gradients", "o": "optimizer"}
    return {
        name: size * psi / (n if key in sharded[stage] else 1)
        for (key, name), size in zip(keys.items(), sizes, strict=True)
    }


def sizes_of(precision):
    return (2, 2, 12) if precision == "mixed" else (4, 4, 8)


def forgets_the_master(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 8) if precision == "mixed" else (4, 4, 8))


def gradients_in_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 4, 12) if precision == "mixed" else (4, 4, 8))


def always_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (4, 4, 8))


def always_the_paper(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 12))


def copy_in_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 12) if precision == "mixed" else (4, 4, 12))


def adam_alone(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 4) if precision == "mixed" else (4, 4, 8))


def divides_everything(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "ogp", "ogp", "ogp"))


def divides_nothing(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "", "", ""))


def parameters_at_stage_2(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "op", "ogp"))


def stage_2_as_1(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "o", "ogp"))


def gradients_whole_at_stage_3(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "og", "op"))


def in_gib(psi, n, stage, precision):
    return {k: v / 2**30 for k, v in dealt(psi, n, stage, sizes_of(precision)).items()}


def in_gb(psi, n, stage, precision):
    return {k: v / 1e9 for k, v in dealt(psi, n, stage, sizes_of(precision)).items()}


def one_number(psi, n, stage, precision):
    return sum(dealt(psi, n, stage, sizes_of(precision)).values())


def other_names(psi, n, stage, precision):
    p, g, o = dealt(psi, n, stage, sizes_of(precision)).values()
    return {"weights": p, "grads": g, "adam": o}


# Right.
def by_hand(psi, n, stage, precision):
    p, g, o = sizes_of(precision)
    return {
        "optimizer": o * psi / (n if stage >= 1 else 1),
        "gradients": g * psi / (n if stage >= 2 else 1),
        "parameters": p * psi / (n if stage == 3 else 1),
    }


def in_four_kinds(psi, n, stage, precision):
    p, g, copy, moments = (2, 2, 4, 8) if precision == "mixed" else (4, 4, 0, 8)
    parts = [1, 1, 1]
    for k in range(stage):
        parts[2 - k] = n
    return {
        "parameters": p * psi / parts[0],
        "gradients": g * psi / parts[1],
        "fp32_copy": copy * psi / parts[2],
        "optimizer": moments * psi / parts[2],
    }


# --- 16.4b sent -----------------------------------------------------------------------------


def going_round(psi, n, times):
    return times * psi * (n - 1) / n


def no_share(psi, n, stage, k):
    return (2, 2, k + 1, 3 * k)[stage] * psi


def one_half(psi, n, stage, k):
    return going_round(psi, n, (1, 2, k + 1, 3 * k)[stage])


def all_reduce_and_gather(psi, n, stage, k):
    return going_round(psi, n, (2, 3, 2 * k + 1, 3 * k)[stage])


def extra_gather(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2 * k + 1, 3 * k)[stage])


def gathers_once(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 2 * k)[stage])


def ddp_every_time(psi, n, stage, k):
    return going_round(psi, n, (2 * k, 2, k + 1, 3 * k)[stage])


def stage_1_every_time(psi, n, stage, k):
    return going_round(psi, n, (2, k + 1, k + 1, 3 * k)[stage])


def no_k_at_2(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2, 3 * k)[stage])


def gathers_every_time_at_2(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2 * k, 3 * k)[stage])


def no_k_at_3(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 3)[stage])


def reduces_once_at_3(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 2 * k + 1)[stage])


def in_bytes(psi, n, stage, k):
    return 4 * going_round(psi, n, (2, 2, k + 1, 3 * k)[stage])


def of_all_ranks(psi, n, stage, k):
    return n * going_round(psi, n, (2, 2, k + 1, 3 * k)[stage])


# Right.
def by_collective(psi, n, stage, k):
    once = psi - psi / n
    reductions = {0: 1, 1: 1, 2: k, 3: k}[stage]
    gathers = {0: 1, 1: 1, 2: 1, 3: 2 * k}[stage]
    return (reductions + gathers) * once


def by_cases(psi, n, stage, k):
    if stage < 2:
        return 2 * (n - 1) * psi / n
    return ((k + 1) if stage == 2 else 3 * k) * (n - 1) * psi / n


WRONG = [
    ("zero3_schedule", "no_free_in_forward", no_free_after_forward),
    ("zero3_schedule", "gathered_twice", gathers_what_is_there),
    ("zero3_schedule", "backward_without_weights", no_gather_before_backward),
    ("zero3_schedule", "all_at_start", all_at_the_start),
    ("zero3_schedule", "backward_order", backward_in_forward_order),
    ("zero3_schedule", "no_reduce", no_reduce_scatter),
    ("zero3_schedule", "reduce_early", reduces_before_backward),
    ("zero3_schedule", "step_early", steps_before_the_last_reduction),
    ("zero3_schedule", "never_freed", no_free_after_backward),
    ("zero3_schedule", "too_many", keeps_one_too_many),
    ("zero3_schedule", "no_step", never_steps),
    ("zero3_schedule", "after_the_step", steps_for_each_layer),
    ("zero3_schedule", "forward_without_weights", computes_without_gathering),
    ("zero3_schedule", "freed_twice", frees_without_gathering),
    ("zero3_schedule", "forward_order", forward_from_the_end),
    ("zero3_schedule", "no_backward", only_forward),
    ("zero3_schedule", "no_forward", only_the_step),
    ("zero3_schedule", "backward_early", layer_by_layer),
    ("zero3_schedule", "no_layer", counts_from_one),
    ("zero3_schedule", "no_instruction", names_the_class),
    ("zero3_schedule", "twice", reduces_twice),
    ("held", "no_master", forgets_the_master),
    ("held", "fp32_gradients", gradients_in_fp32),
    ("held", "fp32_split", always_fp32),
    ("held", "paper_in_fp32", always_the_paper),
    ("held", "copy_in_fp32", copy_in_fp32),
    ("held", "bytes_each", adam_alone),
    ("held", "all_divided", divides_everything),
    ("held", "not_divided", divides_nothing),
    ("held", "swapped", parameters_at_stage_2),
    ("held", "optimizer_alone", stage_2_as_1),
    ("held", "kind_of_bytes", gradients_whole_at_stage_3),
    ("held", "gib", in_gib),
    ("held", "gigabytes", in_gb),
    ("held", "kinds", other_names),
    ("sent", "alone", no_share),
    ("sent", "elements", one_half),
    ("sent", "three_halves", all_reduce_and_gather),
    ("sent", "extra_gather", extra_gather),
    ("sent", "gathered_once", gathers_once),
    ("sent", "ddp_each_time", ddp_every_time),
    ("sent", "stage1_each_time", stage_1_every_time),
    ("sent", "k_forgotten", no_k_at_2),
    ("sent", "gathers_each_time", gathers_every_time_at_2),
    ("sent", "stage3_once", no_k_at_3),
    ("sent", "reduces_once", reduces_once_at_3),
    ("sent", "bytes", in_bytes),
    ("sent", "all_ranks", of_all_ranks),
]

ALSO_WRONG = [
    ("held", "kinds", one_number),
    ("zero3_schedule", "twice", reduces_before_it_is_gone),
    ("zero3_schedule", "twice", forward_twice),
    ("zero3_schedule", "twice", backward_twice),
    ("zero3_schedule", "twice", steps_twice),
]

RIGHT = [
    ("zero3_schedule", keeps_the_last_layer),
    ("zero3_schedule", gathers_one_ahead),
    ("zero3_schedule", yields),
    ("zero3_schedule", reduces_at_the_end),
    ("held", by_hand),
    ("held", in_four_kinds),
    ("sent", by_collective),
    ("sent", by_cases),
]
