"""Answers to lesson 16's exercise 3: schedules of stage 3."""

from dtlib.scratch.zero.schedule import (
    AllGather,
    Backward,
    Forward,
    Free,
    OptimizerStep,
    ReduceScatter,
)


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
]

# The same mistakes in other words.
ALSO_WRONG = [
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
]
