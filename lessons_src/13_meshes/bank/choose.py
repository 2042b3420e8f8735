"""More answers to `choose_layout`, for the tests alone."""

from ..exercises.choose import choose_layout


# Right.
def by_trying(gb, card, gpus, per_node, heads, layers):
    """Tensor sizes in order, and of the last one the first pipeline that fits."""
    sizes = [t for t in (1, 2, 4, 8, 16) if t <= per_node and heads % t == 0]
    fitting = [t for t in sizes if gb <= t * card]
    tensor = fitting[0] if fitting else sizes[-1]
    rest = gpus // tensor
    for pipeline in range(1, rest + 1):
        if rest % pipeline == 0 and layers % pipeline == 0 and gb <= tensor * pipeline * card:
            return rest // pipeline, pipeline, tensor
    return None


def as_a_list(*given):
    return list(choose_layout(*given))


def by_gpus(gb, card, gpus, per_node, heads, layers):
    """Asks whether the stages divide all GPUs."""
    _, _, tensor = choose_layout(gb, card, gpus, per_node, heads, layers)
    for pipeline in range(1, layers + 1):
        if not layers % pipeline and not gpus % pipeline and gb / tensor / pipeline <= card:
            return gpus // tensor // pipeline, pipeline, tensor
    return None


def too_short_a_loop(gb, card, gpus, per_node, heads, layers):
    """Finds nothing where a stage has to be one layer."""
    found = choose_layout(gb, card, gpus, per_node, heads, layers)
    return found if found[1] < layers else None


ALSO_WRONG = [
    ("rest", by_gpus),
    ("none", too_short_a_loop),
    ("three", lambda *given: choose_layout(*given)[:2]),
    ("three", lambda *given: dict(zip("dpt", choose_layout(*given), strict=True))),
    ("reversed", lambda *given: tuple(reversed(choose_layout(*given)))),
    ("no_pipeline", lambda *given: (given[2] // choose_layout(*given)[2], 1,
                                    choose_layout(*given)[2])),
    ("not_all", lambda *given: (1, 1, 1)),
    ("other", lambda gb, card, gpus, *rest: (gpus / 2, 2, 1)),
    ("none", lambda *given: print(choose_layout(*given))),
    ("raised", lambda *given: choose_layout(given)),
]  # fmt: skip
ALSO_RIGHT = [by_trying, as_a_list]
