"""More answers to `batch_fields`, for the tests alone."""

from ..exercises.batch_fields import batch_fields

MISFIT = "train != product or product == 0"  # words of the solution
GIVEN = "None not in given and "


def with_given(words):
    """The solution with other words, which may ask what was `given`."""
    first = "if train is None and micro is None:"
    return {first: f"given = (train, micro, accumulation)\n    {first}", **words}


def another_micro_batch(world_size, train=None, micro=None, accumulation=None):
    if train is not None and micro is not None and accumulation is None:
        return train, train // world_size, 1
    return batch_fields(world_size, train, micro, accumulation)


def a_myth(*given):
    fields = batch_fields(*given)
    if fields[1] % fields[2]:
        raise ValueError(f"micro_batches: {fields[2]} is not divisible by {fields[1]}.")
    return fields


def wants_two(world_size, *given):
    if given.count(None) > 1:
        raise ValueError("give two of the three.")
    return batch_fields(world_size, *given)


def leaves_a_gap(world_size, train=None, *given):
    return (train, *batch_fields(world_size, train, *given)[1:])


def true_division(world_size, *given):
    train, micro, _ = batch_fields(world_size, *given)
    return train, micro, train / micro / world_size


def leaves_all_gaps(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        return None, None, accumulation
    return batch_fields(world_size, train, micro, accumulation)


def rounds_up(world_size, train=None, micro=None, accumulation=None):
    if train is not None and micro is not None and accumulation is None:
        return train, micro, -(-train // (micro * world_size))
    return batch_fields(world_size, train, micro, accumulation)


def as_text(*given):
    return tuple(map(str, batch_fields(*given)))


def asks_for_three(world_size, *given):
    if None in given:
        raise ValueError("give all three.")
    return batch_fields(world_size, *given)


def refuses_three(world_size, *given):
    if None not in given and world_size > 1:
        raise ValueError("give two of them.")
    return batch_fields(world_size, *given)


def none_for_a_refusal(*given):
    try:
        return batch_fields(*given)
    except ValueError:
        return None


def wordless(*given):
    try:
        return batch_fields(*given)
    except ValueError:
        raise ValueError from None


def something_from_nothing(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        return accumulation * world_size, 1, accumulation
    return batch_fields(world_size, train, micro, accumulation)


def by_search(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        raise ValueError("accumulation alone says nothing.")
    if accumulation is None and None in (train, micro):
        accumulation = 1
    top = micro * accumulation * world_size if train is None else train
    for m in [micro] if micro else range(1, top + 1):
        for a in [accumulation] if accumulation else range(1, top + 1):
            if m * a * world_size == top:
                return [top, m, a]
    raise ValueError(f"nothing fits {train}, {micro}, {accumulation} on {world_size} ranks.")


def by_division(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        raise ValueError("give train or micro.")
    a = accumulation or (1 if None in (train, micro) else train // (micro * world_size))
    m = micro or train // (a * world_size)
    fields = m * a * world_size, m, a
    if 0 in fields or train not in (None, fields[0]):
        raise ValueError(f"{train} is not {fields[0]}.")
    return fields


ALSO_WRONG = [
    ("without_ranks", lambda world_size, *given: batch_fields(1, *given)),
    ("unchecked", with_given({f"if {MISFIT}": f"if None in given and ({MISFIT})"})),
    ("floors", with_given({f"if {MISFIT}": f"if {GIVEN}({MISFIT})"})),
    ("zero", {MISFIT: "train != product != 0"}),
    ("zero", {MISFIT: "train != product"}),
    ("mends", {f"if {MISFIT}": "train = product\n    if False"}),
    ("refuses_agreement", with_given({
        f"if {MISFIT}": f"if {GIVEN}train != micro * accumulation or {MISFIT}"})),
    ("other_exception", {"raise ValueError(\n": "raise Exception(\n"}),
    ("assertion", {"raise ValueError(\n": "raise AssertionError(\n"}),
    ("changes_given", another_micro_batch),
    ("refuses", a_myth),
    ("wants_more", wants_two),
    ("gap", leaves_a_gap),
    ("floats", true_division),
    ("gap_from_nothing", leaves_all_gaps),
    ("floors", rounds_up),
    ("kind", as_text),
    ("refuses", asks_for_three),
    ("refuses_agreement", refuses_three),
    ("kind", lambda *given: dict(zip("abc", batch_fields(*given), strict=True))),
    ("order", lambda *given: batch_fields(*given)[::-1]),
    ("returns_none", none_for_a_refusal),
    ("silent", wordless),
    ("from_nothing", something_from_nothing),
]  # fmt: skip
ALSO_RIGHT = [by_search, by_division]
FIELDS = """\
def batch_fields(world_size, train=None, micro=None, accumulation=None):
    accumulation = accumulation or {one}
    micro = micro or train // accumulation
    return micro * accumulation, micro, accumulation"""
LADDER = (FIELDS.format(one="1"), FIELDS.format(one="int(1)"))
