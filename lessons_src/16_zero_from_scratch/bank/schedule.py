"""More answers to `zero3_schedule`, for the tests alone."""

import itertools

from dtlib.scratch.zero import schedule as s

from ..exercises.schedule import zero3_schedule

GATHERED, FREED, REDUCED = "s.AllGather(i), ", "s.Forward(i), s.Free(i)", ", s.ReduceScatter(i)"
FORWARD, BACKWARD = "for i in range(layers)", "for i in reversed(range(layers))"
LAST, STEP = "s.Backward(i), s.Free(i)", "[*lines, s.OptimizerStep()]"
AGAIN = f"{GATHERED}s.Backward"


def keeps_one_too_many(layers):
    """Two layers ahead, where there are enough."""
    lines = [s.AllGather(i) for i in range(3)]
    for i in range(layers):
        lines += [s.Forward(i), s.Free(i), *[s.AllGather(i + 3)] * (i + 3 < layers)]
    right = zero3_schedule(layers)
    return right if layers < 4 else lines + right[3 * layers :]


def keeps_the_last_layer(layers):
    lines = zero3_schedule(layers)
    del lines[3 * layers - 1 : 3 * layers + 1]
    return lines


def gathers_one_ahead(layers):
    lines = [s.AllGather(0)]
    for i in range(layers):
        lines += [s.AllGather(i + 1)] if i + 1 < layers else []
        lines += [s.Forward(i), s.Free(i)]
    lines += [s.AllGather(layers - 1)]
    for i in reversed(range(layers)):
        lines += [s.AllGather(i - 1)] if i else []
        lines += [s.Backward(i), s.ReduceScatter(i), s.Free(i)]
    return [*lines, s.OptimizerStep()]


def yields(layers):
    for i in range(layers):
        yield from (s.AllGather(i), s.Forward(i), s.Free(i))
    for i in range(layers - 1, -1, -1):
        yield from (s.AllGather(i), s.Backward(i), s.Free(i), s.ReduceScatter(i))
    yield s.OptimizerStep()


def reduces_at_the_end(layers):
    lines = [one for one in zero3_schedule(layers) if not isinstance(one, s.ReduceScatter)]
    return [*lines[:-1], *(s.ReduceScatter(i) for i in range(layers)), lines[-1]]


def reduces_one_later(layers):
    """A gradient travels while the layer below computes: two are whole at once."""
    lines, late = [], None
    for one in zero3_schedule(layers):
        if isinstance(one, s.ReduceScatter):
            late = one
        else:
            lines.append(one)
            if late is not None and isinstance(one, (s.Backward, s.Free)):
                lines.append(late)
                late = None
    last = [late] if late is not None else []
    return [*lines[:-1], *last, lines[-1]]


ALSO_WRONG = [
    ("no_free_in_forward", {FREED: "s.Forward(i)", AGAIN: "s.Backward"}),
    ("gathered_twice", {FREED: "s.Forward(i)"}),
    ("backward_without_weights", {AGAIN: "s.Backward"}),
    ("all_at_start", {
        f"{GATHERED}{FREED}": "s.Forward(i)", AGAIN: "s.Backward",
        "lines = []": "lines = [s.AllGather(i) for i in range(layers)]"}),
    ("backward_order", {BACKWARD: FORWARD}),
    ("no_reduce", {REDUCED: ""}),
    ("reduce_early", {LAST: f"s.ReduceScatter(i), {LAST}"}),
    ("step_early", {STEP: "[*lines[:-1], s.OptimizerStep(), lines[-1]]"}),
    ("never_freed", {LAST: "s.Backward(i)"}),
    ("no_step", {STEP: "lines"}),
    ("after_the_step", {REDUCED: f"{REDUCED}, s.OptimizerStep()", STEP: "lines"}),
    ("forward_without_weights", {f"{GATHERED}{FREED}": FREED}),
    ("freed_twice", {FREED: f"{FREED}, s.Free(i)"}),
    ("forward_order", {FORWARD: BACKWARD}),
    ("no_backward", {BACKWARD: "for i in []"}),
    ("backward_early", {
        FREED: "s.Forward(i), s.Backward(i), s.Free(i), s.ReduceScatter(i)",
        BACKWARD: "for i in []"}),
    ("no_layer", {FORWARD: "for i in range(1, layers + 1)"}),
    ("no_instruction", {"s.OptimizerStep()": "s.OptimizerStep"}),
    ("twice", {"[*lines": "[*lines, *(s.ReduceScatter(i) for i in range(layers))"}),
    *(
        ("twice", {f"s.{one}": f"s.{one}, s.{one}"})
        for one in ("Forward(i)", "Backward(i)", "ReduceScatter(i)", "OptimizerStep()")
    ),
    ("too_many", keeps_one_too_many),
    ("gradients_pile_up", reduces_at_the_end),
    ("gradients_pile_up", {REDUCED: "", STEP:
        "[*lines, *(s.ReduceScatter(i) for i in reversed(range(layers))), s.OptimizerStep()]"}),
    ("no_forward", lambda layers: [s.OptimizerStep()]),
    ("no_forward", lambda layers: []),
    ("none", lambda layers: [].sort()),
    ("raised", lambda layers: 3),
    ("no_instruction", lambda layers: ["Gather"]),
    ("no_instruction", lambda layers: [zero3_schedule(layers)]),
    ("gathered_twice", lambda layers: itertools.repeat(s.AllGather(0))),
]  # fmt: skip
ALSO_RIGHT = [keeps_the_last_layer, gathers_one_ahead, yields, reduces_one_later]
